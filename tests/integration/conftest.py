"""What several of these tests begin with."""

from collections.abc import Iterator

import psycopg
import pytest

from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from tests.support.pipeline import Pipeline
from tests.support.pruning import Pruner
from tests.support.rig import Connection


@pytest.fixture
def pruner(pipeline: Pipeline) -> Pruner:
    return Pruner(pipeline)


@pytest.fixture
def writer(pipeline: Pipeline) -> Iterator[Connection]:
    with psycopg.connect(pipeline.dsn) as connection:
        yield connection


@pytest.fixture
def late_writer(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer writes between a deployment's look at the table and the creation of its slot."""
    create_slot = PostgresqlDatabase.create_slot

    def write_first(database: PostgresqlDatabase, *, timeout_seconds: float) -> object:
        pipeline.write(1)
        return create_slot(database, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(PostgresqlDatabase, "create_slot", write_first)
