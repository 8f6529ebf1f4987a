"""Where an operator keeps the connectors, nothing is written by REST: it would undo it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdc_outbox.cli import cli
from cdc_outbox.cli.contexts_file import read_contexts
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster, ManagedBy
from cdc_outbox.errors import ConfigError, ConnectError
from tests.support.connect_server import Answer, Asked, answering

PODS = "my-connect-connect-1.my-connect-connect.kafka.svc:8083"
CONFIG = {"name": "orders", "connector.class": "x"}


def running_on(worker: str) -> Callable[[Asked], Answer]:
    status = {"connector": {"state": "RUNNING", "worker_id": worker}, "tasks": []}
    return lambda asked: (200, {"orders": {"status": status}} if "expand" in asked.path else ["orders"])


@pytest.mark.parametrize(
    "write",
    [
        lambda client: client.create_stopped(CONFIG),
        lambda client: client.put_config(CONFIG),
        lambda client: client.delete("orders"),
        lambda client: client.stop("orders"),
        lambda client: client.pause("orders"),
        lambda client: client.resume("orders"),
        lambda client: client.alter_offsets("orders", []),
        lambda client: client.reset_offsets("orders"),
        lambda client: client.refuse_kept(),
    ],
)
def test_a_cluster_that_is_said_to_be_strimzis_is_not_written_to(write: Callable[[ConnectClient], None]) -> None:
    with answering(lambda _asked: (200, {})) as (url, asked):
        client = ConnectClient(Cluster(urls=(url,), managed_by=ManagedBy.STRIMZI))
        with pytest.raises(ConnectError, match="would revert changes made through the REST API") as caught:
            write(client)
        client.restart("orders", only_failed=True)  # which no resource contradicts
        client.close()
    assert caught.value.hint is not None
    assert "render --target strimzi" in caught.value.hint
    assert [each.method for each in asked] == ["POST"]


@pytest.mark.parametrize(
    ("worker", "managed_by", "refuses"),
    [
        (PODS, None, True),
        (PODS, ManagedBy.REST, False),
        ("my-connect-connect-1.other-connect.kafka.svc:8083", None, False),
        ("connect-1:8083", None, False),
    ],
)
def test_strimzis_pods_are_seen_by_their_names(worker: str, managed_by: ManagedBy | None, *, refuses: bool) -> None:
    with answering(running_on(worker)) as (url, _asked):
        client = ConnectClient(replace(Cluster(urls=(url,)), managed_by=managed_by))
        if refuses:
            with pytest.raises(ConnectError, match="is a pod of Strimzi's KafkaConnect my-connect"):
                client.refuse_kept()
        else:
            client.refuse_kept()
        client.close()


@pytest.mark.parametrize("answer", [(403, {"message": "no"}), (200, ["orders"]), (200, {"orders": {}})])
def test_what_cannot_be_seen_is_not_refused(answer: Answer) -> None:
    with answering(lambda _asked: answer) as (url, _):
        client = ConnectClient(url)
        client.refuse_kept()
        client.close()


@pytest.mark.parametrize("command", [["pause", "orders"], ["stop", "orders"], ["resume", "orders"]])
def test_commands_change_nothing_in_strimzis_cluster(command: list[str]) -> None:
    with answering(running_on(PODS)) as (url, asked):
        found = CliRunner().invoke(cli, [*command, "--connect-url", url])
    assert isinstance(found.exception, ConnectError)
    assert {each.method for each in asked} == {"GET"}


def test_offsets_are_shown_and_not_changed_in_strimzis_cluster() -> None:
    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/offsets"):
            return 200, {"offsets": []}
        return (200, CONFIG) if asked.path.endswith("/config") else running_on(PODS)(asked)

    with answering(answer) as (url, asked):
        shown = CliRunner().invoke(cli, ["offsets", "show", "orders", "--connect-url", url])
        refused = CliRunner().invoke(cli, ["offsets", "reset", "orders", "--yes", "--connect-url", url])
    assert (shown.exit_code, "no stored offset applies" in shown.stdout) == (0, True)
    assert isinstance(refused.exception, ConnectError)
    assert {each.method for each in asked} == {"GET"}


def test_a_context_says_who_keeps_the_connectors(tmp_path: Path) -> None:
    text = "contexts: {k8s: {connect: {url: http://connect:8083, managed_by: strimzi}}}\n"
    (tmp_path / "cdc-outbox.yaml").write_text(text)
    cluster = read_contexts({}, named=tmp_path / "cdc-outbox.yaml").find("k8s").cluster()
    assert cluster is not None
    assert cluster.managed_by is ManagedBy.STRIMZI
    (tmp_path / "cdc-outbox.yaml").write_text(text.replace("strimzi", "helm"))
    with pytest.raises(ConfigError, match="managed_by: must be rest or strimzi"):
        read_contexts({}, named=tmp_path / "cdc-outbox.yaml")
