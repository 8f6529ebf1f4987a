"""No error is kept by a variable of a function in its own traceback: clients that it keeps have threads and sockets."""

import ast
import logging
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cdc_outbox.consumer import topic_reader
from cdc_outbox.consumer.topic_reader import TopicReader, find_topic_ids
from cdc_outbox.contract.topics import Topic
from cdc_outbox.databases.drivers import translated_for_caller
from cdc_outbox.errors import CdcOutboxError, DatabaseUnavailableError
from cdc_outbox.kafka import admin, broker_errors
from tests.support.garbage import uncollected

PACKAGE = Path(__file__).parents[2] / "cdc_outbox"
SECONDS = 0.05


def kept(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield the variables that a function raises the translation of an error from, and does not delete."""
    assigned = {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    deleted = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and node.cause is not None and isinstance(node.exc, ast.Name):
            yield from {node.exc.id} & assigned - deleted


def test_no_function_keeps_the_translated_error_that_it_raises() -> None:
    functions = (
        (path, node)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    found = [f"{path.name}: {node.name} keeps {name}" for path, node in functions for name in kept(node)]
    assert found == []


class Kept:
    """What a function holds."""


def test_an_error_of_a_driver_that_was_translated_is_freed_with_what_its_functions_hold() -> None:
    def fails(held: Kept) -> None:
        with translated_for_caller():
            raise ConnectionResetError(str(held))

    held = Kept()
    seen = weakref.ref(held)
    with uncollected():
        with pytest.raises(DatabaseUnavailableError) as raised:
            fails(held)
        del held, raised
        assert seen() is None


class Silent(AdminClient):
    """A client whose brokers have the topic ``t``, and answer nothing else."""

    def list_topics(self, *_: object, **__: object) -> Any:
        partitions = {0: SimpleNamespace(id=0, replicas=[1])}
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)}, brokers={1: None})


def topics_of(client: AdminClient) -> admin.Topics:
    topics = object.__new__(admin.Topics)
    topics._admin, topics._servers = client, ""
    return topics


def reader_of(client: AdminClient) -> TopicReader:
    reader = object.__new__(TopicReader)
    reader.__dict__["_admin"] = lambda: client
    return reader


def missing_of(client: AdminClient) -> admin.MissingTopics:
    return admin.MissingTopics(topics_of(client), lambda name: Topic(name=name, partitions=1), logging.getLogger())


ASKS: dict[str, Callable[[AdminClient], object]] = {
    "topic ids": lambda client: find_topic_ids(client, Mock(), ["t"], SECONDS),
    "settings": lambda client: topics_of(client).find(["t"]),
    "ends": lambda client: topics_of(client).ends(["t"]),
    "creation": lambda client: topics_of(client).create([Topic(name="t", partitions=1)]),
    "missing topics": lambda client: missing_of(client).ensure("other"),
    "compacted topics": lambda client: reader_of(client).compacted(["t"]),
    "members": lambda client: reader_of(client).members("g"),
}


@pytest.mark.parametrize("name", ASKS)
def test_an_admin_client_that_got_no_answer_is_freed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_ADMIN_SECONDS", SECONDS)
    monkeypatch.setattr(topic_reader, "_ANSWER_SECONDS", SECONDS)
    monkeypatch.setattr(broker_errors, "PASSING_ERRORS", frozenset[str]())
    client = Silent({"bootstrap.servers": "127.0.0.1:1"}, logger=logging.getLogger("silent"))
    seen = weakref.ref(client)
    with uncollected():
        with suppress(CdcOutboxError, KafkaException):
            ASKS[name](client)
        del client
        assert seen() is None
