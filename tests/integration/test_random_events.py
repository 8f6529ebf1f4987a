"""Some of the events, records and configurations of which `infra/fuzz` takes a hundred thousand, or two hundred."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from cdc_outbox import OutboxTable
from cdc_outbox.testing import MariaDb, Stack
from fuzz import records, verdicts
from fuzz.verdicts_mutations import mutated
from fuzz.writer import ARRIVED, TABLES, Lane, explore, report
from tests.support.mariadb import MariaDbStore
from tests.support.pipeline import Pipeline
from tests.support.postgresql import PostgresStore
from tests.support.service import Service
from tests.support.sqlite import SqliteStore
from tests.support.writer_clients import Store

EVENTS = 1_000 // (3 * len(TABLES)) + 1


@pytest.fixture(scope="module")
def on_postgresql(outbox_stack: Stack) -> Iterator[Store]:
    with closing(PostgresStore.create(outbox_stack, "random_events")) as store:
        yield store


@pytest.fixture(scope="module")
def on_mariadb(mariadb: MariaDb) -> Iterator[Store]:
    with closing(MariaDbStore.create(mariadb, "random_events")) as store:
        yield store


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(SqliteStore(tmp_path_factory.mktemp("sqlite") / "random.db")) as store:
        yield store


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.payload_type)
@pytest.mark.parametrize("database", ["on_postgresql", "on_mariadb", "on_sqlite"])
def test_a_random_event_arrives_byte_for_byte_or_is_refused(
    database: str, table: OutboxTable, request: pytest.FixtureRequest
) -> None:
    with closing(Lane(request.getfixturevalue(database), table)) as lane:
        explore(lane, EVENTS)
    assert lane.counts.total() >= EVENTS
    assert EVENTS / 10 < lane.counts[ARRIVED] < EVENTS * 9 / 10
    assert f"{lane.counts[ARRIVED]:,}" in report({lane.name: lane.counts})


@pytest.fixture
def read_service(outbox_stack: Stack) -> Service:
    pipeline = Pipeline.make(outbox_stack)
    pipeline.create_topics(records.PARTITIONS)
    return Service(pipeline)


def test_random_records_stop_no_consumer_verify_or_replay(read_service: Service) -> None:
    outcomes = records.explore(read_service, 300, seed=1)
    assert outcomes["applied"] >= 30
    assert outcomes["parked"] >= 100


def test_the_bound_of_the_park_pauses_only_the_partition_of_random_records(read_service: Service) -> None:
    records.explore_bound(read_service, 200, seed=2, room=50)


def test_what_lint_says_of_mutated_configurations_is_what_becomes_of_events(outbox_stack: Stack) -> None:
    found = verdicts.explore(outbox_stack, [mutated(100, number) for number in range(2, 8)])
    assert verdicts.agreement(found) == 1
    assert {verdict.word for verdict in found if verdict.seen} == {"errors", "none"}
    assert "6 configurations, 3 of them run" in verdicts.report(found)
