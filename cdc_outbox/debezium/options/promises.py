"""What an option may not become without breaking a promise, told once: for a spec's overrides and for any config.

A spec decides all of these itself, so an override of one is refused whatever its value. In a configuration that
somebody else wrote only the values that break something are found; an entry without a code breaks nothing by itself.
"""

import re
from collections.abc import Container
from dataclasses import dataclass, field

from cdc_outbox.finding import Severity


@dataclass(frozen=True, slots=True)
class Promise:
    """One option, and with it every option below it.

    Args:
        reason: What would happen; completes "… : ".
        code: Of the finding in any configuration, empty if the option is a hazard in an override only.
        kept_by: The values that break nothing; without any, the option itself breaks it.
    """

    option: str
    reason: str
    code: str = ""
    severity: Severity = Severity.ERROR
    kept_by: frozenset[str] = field(default_factory=frozenset)

    def covers(self, option: str) -> bool:
        """Tell whether an option is this one, or belongs to it."""
        return option == self.option or option.startswith(f"{self.option.removesuffix('.')}.")


_OFF = frozenset({"false", ""})
_FAIL = frozenset({"fail", ""})
_ANOTHER_KEY = "another key puts an aggregate into another partition, and its order is lost"

PROMISES = (
    Promise("binary.handling.mode", "the columns would reach the router as another type"),
    Promise("capture.", "the spec decides which changes are read"),
    Promise("collection.", "the outbox could be left out"),
    Promise("column.", "the router would miss a column, or find another value in it"),
    Promise("cursor.pipeline", "changes could be left out, or become others"),
    Promise("cursor.oversize.", "a change that is too large would be skipped without a word"),
    Promise("database.exclude.list", "the outbox could be left out"),
    Promise("database.include.list", "the outbox could be left out"),
    Promise(
        "errors.tolerance",
        "what cannot be converted would be skipped without a word",
        "CC201",
        kept_by=frozenset({"none", ""}),
    ),
    Promise(
        "event.deserialization.failure.handling.mode",
        "what cannot be read would be skipped without a word",
        "CC202",
        kept_by=_FAIL,
    ),
    Promise(
        "event.processing.failure.handling.mode",
        "what cannot be processed would be skipped without a word",
        "CC202",
        kept_by=_FAIL,
    ),
    Promise(
        "inconsistent.schema.handling.mode",
        "rows that do not fit the known schema would be skipped without a word",
        "CC202",
        kept_by=_FAIL,
    ),
    Promise("event.converting.failure.handling.mode", "a value that cannot be read would become null"),
    Promise("field.exclude.list", "the router would miss a field"),
    Promise("field.name.adjustment.mode", "the router would not find the columns"),
    Promise(
        "flush.lsn.source",
        "the slot would hold back WAL until the disk is full",
        "CC609",
        kept_by=frozenset({"true", ""}),
    ),
    Promise("field.renames", "the router would miss a field"),
    Promise("filters.match.mode", "the outbox could be left out"),
    Promise("gtid.source.", "transactions that came from some servers would be left out without a word"),
    Promise("header.converter", "consumers could not read the headers"),
    Promise("key.converter", _ANOTHER_KEY),
    Promise("log.mining.transaction.retention.ms", "a transaction that lasts longer would be given up, and its events"),
    Promise("lsn.flush.", "the slot would hold back WAL until the disk is full, or give it up too early"),
    Promise("message.prefix", "the spec decides which messages are events"),
    Promise("post.processors", "the spec decides what becomes of a row"),
    Promise("predicates", "the spec decides what becomes of a row"),
    Promise(
        "producer.override.acks",
        "an event could be lost with the broker that alone had it",
        "CC203",
        kept_by=frozenset({"all", "-1", ""}),
    ),
    Promise("producer.override.enable.idempotence", "a retry could write an event twice, or out of order"),
    Promise("producer.override.key.serializer", _ANOTHER_KEY, "CC207"),
    Promise(
        "producer.override.max.in.flight.requests.per.connection",
        "a retry could write events out of order",
    ),
    Promise("producer.override.partitioner.", "an aggregate's events would not stay in one partition"),
    Promise(
        "producer.override.retries",
        "without retries Kafka gives up idempotence",
        "CC205",
        Severity.WARNING,
        kept_by=frozenset({"2147483647", ""}),
    ),
    Promise("producer.override.transactional.id", "the producer is Connect's to set up", "CC207"),
    Promise("producer.override.value.serializer", "consumers could not read the events", "CC207"),
    Promise("provide.transaction.metadata", "events get lost at a restart with it (Debezium dbz#76)"),
    Promise(
        "schema.history.internal.skip.unparseable.ddl",
        "after a statement that was skipped, rows would be read wrongly",
    ),
    Promise("schema.exclude.list", "the outbox could be left out"),
    Promise("schema.include.list", "the outbox could be left out"),
    Promise("schema.name.adjustment.mode", "the router would not find what it looks for"),
    Promise(
        "slot.drop.on.stop",
        "what is committed while the connector is stopped would be lost",
        "CC608",
        kept_by=_OFF,
    ),
    Promise("slot.stream.params", "the spec decides what the slot sends"),
    Promise("snapshot.include.collection.list", "the outbox could be left out when its events are published again"),
    Promise("snapshot.mode", "the spec decides it"),
    Promise("snapshot.query.mode", "events would be published again in another order"),
    Promise("snapshot.select.statement.overrides", "events would be published again in another order"),
    Promise("table.exclude.list", "the outbox could be left out"),
    Promise("tasks.max", "a slot has one reader"),
    Promise("time.precision.mode", "the router would not understand the time of an event"),
    Promise("topic.delimiter", "rows would pass the router by"),
    Promise("topic.naming.strategy", "rows would pass the router by"),
    Promise("transforms", "the spec decides what becomes of a row"),
    Promise("value.converter", "consumers could not read the events"),
)

_TUNABLE = {
    "heartbeat.interval.ms": (100, 600_000, "0 would let an idle outbox hold back WAL until the disk is full"),
    "poll.interval.ms": (1, 60_000, "0 would keep a core busy, and more than a minute looks like a standstill"),
    "producer.override.linger.ms": (0, 60_000, "more than a minute looks like a standstill"),
}
"""What the spec chooses and a user may choose otherwise: from, to, and why no other value."""

_FREE = frozenset({"extended.headers.enabled"})
"""What is rendered, and keeps every promise either way: consumers pass Debezium's own headers over."""

CLEANUP_POLICY = re.compile(r"topic\.creation\..+\.cleanup\.policy")
COMPACTION = "compaction keeps one event an aggregate and drops the rest"


def reason_against(option: str, value: str, decided: Container[str]) -> str:
    """Return why an override may not have this value, empty if it may.

    Args:
        decided: The options that the spec sets by itself.
    """
    for promise in PROMISES:
        if promise.covers(option):
            return promise.reason
    if CLEANUP_POLICY.fullmatch(option):
        return "" if value == "delete" else COMPACTION
    if option in _TUNABLE:
        least, most, reason = _TUNABLE[option]
        fits = re.fullmatch(r"[0-9]{1,9}", value) and least <= int(value) <= most
        return "" if fits else f"it must be a number from {least} to {most:,}; {reason}"
    return "the spec decides it" if option in decided and option not in _FREE else ""
