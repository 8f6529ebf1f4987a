"""Proofs by Debezium's own EventRouter and Connect's own converters: what a row becomes, in one JVM."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_outbox.debezium.event_router import (
    Change,
    ConnectRecord,
    ConnectSchema,
    ConnectStruct,
    ConnectType,
    ConnectValue,
    LogicalName,
    RoutingConfig,
)
from cdc_outbox.debezium.event_router.jvm import Outcome, RealRouter
from cdc_outbox.message import Message
from tests.proofs.proof import Changes, Proof

Columns = Mapping[str, Any]
Seen = Callable[[Sequence[Outcome]], bool]

NOW_MS, LONG_AGO_MS = 1_700_000_000_000, 1_600_000_000_000
"""The connector's clock, and the row's."""


@dataclass(frozen=True, kw_only=True)
class Routed(Proof):
    """A hazard that shows in what becomes of rows.

    Args:
        rows: What differs in each from the row that every router takes.
        shows: Whether it is seen.
        connector: Debezium's word for the database.
        plugin: The connector whose jars are taken; MariaDB's are of an earlier release than PostgreSQL's.
        worker: What the worker's settings say where the configuration says nothing; the fixed one never needs it.
        heartbeat: Whether a heartbeat comes before the rows.
    """

    shows: Seen
    rows: Sequence[Columns] = ({},)
    connector: str = "postgresql"
    plugin: str = "postgres"
    worker: Mapping[str, str] = field(default_factory=dict)
    heartbeat: bool = False

    def route(self, real: RealRouter, changes: Changes) -> list[Outcome]:
        """Return what becomes of the heartbeat and the rows."""
        config = RoutingConfig.from_config({**self.worker, **self.config(changes)})
        records = [*([_HEARTBEAT] if self.heartbeat else []), *map(self._record, self.rows)]
        return real.route(config, records, connector=self.connector)

    def _record(self, columns: Columns) -> ConnectRecord:
        if "document" in columns:
            change = Change(row=None, document=columns["document"], operation=columns.get("op", "c"))
        else:
            change = Change(row=_row(columns), connector_time_ms=NOW_MS, row_schema="orders.outbox.Value")
        return ConnectRecord(topic="orders.orders.outbox", value=change)


def _row(columns: Columns) -> dict[str, ConnectValue]:
    text = {"id": "e1", "aggregatetype": "order", "aggregateid": "42", "type": "Placed", "payload": '{"a":1}'}
    usual = {name: ConnectValue(ConnectType.STRING, value) for name, value in text.items()}
    usual["created_at"] = ConnectValue(ConnectType.INT64, LONG_AGO_MS * 1000, LogicalName.MICRO_TIMESTAMP)
    row = {**usual, **{name: _value(value) for name, value in columns.items() if name != "without"}}
    return {name: value for name, value in row.items() if name not in columns.get("without", ())}


def _value(value: object) -> ConnectValue:
    match value:
        case ConnectValue():
            return value
        case bytes():
            return ConnectValue(ConnectType.BYTES, value)
        case int():
            return ConnectValue(ConnectType.INT32, value)
        case str() | None:
            return ConnectValue(ConnectType.STRING, value)
    raise TypeError(value)


_HEARTBEAT = ConnectRecord(
    topic="__debezium-heartbeat.orders",
    key=ConnectStruct(
        ConnectSchema(
            type=ConnectType.STRUCT,
            name="io.debezium.connector.common.ServerNameKey",
            optional=False,
            fields=(("serverName", ConnectSchema(type=ConnectType.STRING, optional=False)),),
        ),
        {"serverName": "orders"},
    ),
    value=ConnectStruct(
        ConnectSchema(
            type=ConnectType.STRUCT,
            name="io.debezium.connector.common.Heartbeat",
            optional=False,
            fields=(("ts_ms", ConnectSchema(type=ConnectType.INT64, optional=False)),),
        ),
        {"ts_ms": NOW_MS},
    ),
)


def fails(exception: str, text: str = "") -> Seen:
    """See the task fail at the first record that is looked at last, with this exception."""
    return lambda seen: exception in getattr(seen[-1], "exception", "") and text in str(seen[-1])


def becomes(check: Callable[..., bool]) -> Seen:
    """See the messages that the records become, each of them, and look at them."""
    return lambda seen: all(isinstance(one, Message) for one in seen) and check(*seen)


def values(*expected: bytes | None) -> Seen:
    """See these values."""
    return becomes(lambda *seen: [one.value for one in seen] == list(expected))


def topics(*expected: str) -> Seen:
    """See these topics."""
    return becomes(lambda *seen: [one.topic for one in seen] == list(expected))


def headers(*expected: str) -> Seen:
    """See headers of these names."""
    return becomes(lambda one: [name for name, _ in one.headers] == list(expected))
