"""The page about a restore of the producer's database, followed step by step after each kind of restore."""

import re
from collections.abc import Callable, Iterable, Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from cdc_outbox import Event, Outbox
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.errors import ConnectorInvalidError
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import Stack
from tests.support.own_server import OwnServer
from tests.support.rig import eventually, open_folder
from tests.support.runbooks import Runbook, blocks, separate_service

PAGE = "producer-database.md"
BackUp = Callable[[OwnServer], Callable[[], None]]
"""Takes a backup, and returns what restores it."""


@pytest.fixture
def own(outbox_stack: Stack) -> Iterator[OwnServer]:
    with open_folder() as folder, OwnServer.started(outbox_stack, folder, f"r{uuid4().hex[:10]}") as server:
        yield server


def snapshot(own: OwnServer) -> Callable[[], None]:
    copied = own.copy("snapshot")
    own.pipeline.client.restart(own.pipeline.name, only_failed=False)
    return lambda: own.restore(copied)


def point_in_time(own: OwnServer) -> Callable[[], None]:
    backup = own.copies / "backup"
    own.call(own.program("pg_basebackup"), "--dbname", own.server.dsn(), "--pgdata", str(backup), "--checkpoint=fast")
    return lambda: own.restore(backup)


def dump(own: OwnServer) -> Callable[[], None]:
    file, name = own.folder / "dump.sql", own.pipeline.name
    file.touch()
    file.chmod(0o666)
    own.call(own.program("pg_dump"), "--dbname", own.pipeline.dsn, "--file", str(file))

    def restore() -> None:
        with psycopg.connect(own.server.dsn(), autocommit=True) as connection:
            connection.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")
            connection.execute(SQL("drop database {}").format(Identifier(name)))
        own.call(own.program("psql"), "--quiet", "--dbname", own.server.create_database(name), "--file", str(file))

    return restore


def ids(own: OwnServer) -> set[str | None]:
    """Return the ids of the events in the topic."""
    return {own.pipeline.spec.contract.event_of(message).id for message in own.pipeline.messages()}


def write_forgotten(own: OwnServer) -> None:
    """Write an event without a number that is older than what the spec says that consumers remember."""
    own.spec.write_text(own.spec.read_text().replace("topics:\n", "topics:\n  horizon: 30d\n"))
    event = Event(aggregate_type="metric", aggregate_id="1", type="Seen", payload={})
    with own.pipeline.connect() as connection, connection.transaction():
        Outbox(spec=own.pipeline.spec).add(connection, event)
        connection.execute(
            "update outbox set created_at = created_at - interval '31 days' where aggregatetype = 'metric'"
        )


def make_way(own: OwnServer) -> None:
    """Do what the deployment says that refuses such a row."""
    with pytest.raises(ConnectorInvalidError) as caught:
        own.pipeline.deploy(spec=parse_spec(own.spec.read_text()), earlier=EarlierEvents.REPUBLISH)
    [finding] = caught.value.findings
    assert finding.code == "DB519"
    with own.pipeline.connect() as connection:
        connection.execute(finding.remedy.encode())


@pytest.mark.parametrize(
    ("back_up", "code", "early", "forgotten"),
    [
        (snapshot, "DB514", 0, False),
        (snapshot, "DB514", 1, False),
        (point_in_time, "DB512", 0, False),
        (dump, "DB512", 0, True),
    ],
)
def test_each_committed_event_is_published_or_named(
    own: OwnServer, back_up: BackUp, code: str, early: int, *, forgotten: bool
) -> None:
    """``early``: how many events of an aggregate writers write between the restore and the next incarnation.

    ``forgotten``: whether the table has a row that no consumer could tell from a new one.
    """
    if forgotten:
        write_forgotten(own)
    pipeline, service = own.pipeline, separate_service(own.pipeline)
    runbook = Runbook(pipeline, own.spec, service)
    stop, look, publish, accept = blocks(PAGE, "Steps")
    [prove] = blocks(PAGE, "Proof")
    with service.running():
        kept = [*pipeline.write(3, "1"), *pipeline.write(2, "2")]
        eventually(lambda: len(service.effects()) == 5, "the effects of what is kept")
        restore = back_up(own)
        own.fill_log()
        lost = [*pipeline.write(2, "1"), *pipeline.write(1, "3")]
        own.beat(3)
        eventually(lambda: len(service.effects()) == 8, "the effects of what the restore takes back")
        runbook.run(stop)
        restore()
        for command in "preflight", "doctor":
            found = own.run(command).stdout
            assert ("OP401" in found, code in found) == (True, True), found
        conflicting = [*pipeline.write(early, "1"), *pipeline.write(early, "4")]
        assert "the database was restored to heartbeat" in runbook.run(look)
        if forgotten:
            make_way(own)
        order = re.findall(r"(?m)^  \d+\. (cdc-outbox [^,\n]+)", runbook.run(publish))
        assert commands(order) == commands(stop.splitlines() + publish.splitlines() + accept.splitlines())
        new = [*pipeline.write(2, "1"), *pipeline.write(1, "3")]
        assert "accepted: the database was restored" in runbook.run(accept)
        own.beat()
        written = {event.id for event in (*kept, *lost, *conflicting, *new)}
        eventually(lambda: ids(own) == written, "every event")
        eventually(lambda: len(service.effects()) == 11 + early, "the effects of what is new")
        eventually(lambda: len(service.parked()) == early, "the conflict")
        found = runbook.run(prove)
    assert "nothing found: the heartbeats have no gap" in found
    assert "missing" not in found
    assert ("conflict: order/1" in found) == bool(early)
    named = re.findall(r"extra: (order/\d) \(\w+\.1\): (\d(?: to \d)?)", found)
    assert named == [("order/1", "5" if early else "4 to 5"), ("order/3", "1")]
    assert own.run("prune", "--keep=0s", "--wait=30s").returncode == 0


def commands(lines: Iterable[str]) -> list[list[str]]:
    """Return subcommand and options of each command."""
    found = [[word for word in line.split()[1:] if "." not in word] for line in lines]
    return [words for words in found if words]
