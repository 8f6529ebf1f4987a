"""What lint says of mutated configurations is what a worker did with them: an error where events did not arrive."""

from collections.abc import Mapping

import pytest

from cdc_outbox.connect.lint import Kind, lint
from cdc_outbox.finding import Severity
from tests.support.configs import ROUTER, TOPIC_NAMES, changed, config_of

_KAFKA, _DEBEZIUM = "org.apache.kafka.connect.transforms.", "io.debezium."
_R, _PREDICATE = "transforms.outbox.", "predicates.isOutbox."
_PATTERN, _TABLES = f"{_PREDICATE}pattern", "table.include.list"
_MODE = "snapshot.mode.configuration.based.start.stream"

Changes = Mapping[str, str | None]


def errors(changes: Changes) -> list[str]:
    found = lint(config_of(changed(Kind.POSTGRESQL, changes)))
    return [finding.code for finding in found if finding.severity is Severity.ERROR]


LOST: list[tuple[str, Changes]] = [
    # Names and lists as Connect takes them.
    ("CC214", {f"{_R}predicate": " isOutbox "}),
    ("CC212", {"predicates": "isOutbox,"}),
    ("CC212", {"transforms": "outbox,"}),
    ("CC229", {"transforms": None}),
    ("CC229", {"transforms": ""}),
    ("CC223", {f"{_PREDICATE}type": f"{_KAFKA}TopicNameMatches"}),
    ("CC223", {f"{_R}type": f"{_DEBEZIUM}transforms.EventRouter"}),
    ("CC223", {"connector.class": f"{_DEBEZIUM}connector.PostgresConnector"}),
    ("CC505", {f"{_R}type": "EventRouter", _PATTERN: "outbox"}),
    ("CC216", {_PATTERN: r"orders\.public\outbox"}),
    ("CC525", {_TABLES: r"public\outbox"}),
    ("CC120", {"heartbeat.interval.ms": "-1"}),
    ("CC120", {"topic.creation.default.partitions": "0"}),
    ("CC120", {"topic.creation.default.replication.factor": "-2"}),
    ("CC517", {"snapshot.mode": "configuration_based"}),
]

ARRIVES: list[Changes] = [
    {f"{_R}type": "EventRouter"},
    {f"{_PREDICATE}type": "TopicNameMatches"},
    {"snapshot.mode": "configuration_based", _MODE: "true"},
    {"topic.creation.default.partitions": "-1"},
    {"transforms.unused.type": ROUTER},
    {_TABLES: None, "table.exclude.list": r"public\.customers", _PATTERN: ".*"},
]


@pytest.mark.parametrize(("code", "changes"), LOST)
def test_where_events_did_not_arrive_there_is_an_error(code: str, changes: Changes) -> None:
    assert code in errors(changes)


@pytest.mark.parametrize("changes", ARRIVES)
def test_where_events_arrived_there_is_no_error(changes: Changes) -> None:
    assert errors(changes) == []


def test_a_predicate_with_blanks_is_offered_without_them() -> None:
    found = lint(config_of(changed(Kind.POSTGRESQL, {f"{_R}predicate": " isOutbox "})))
    assert [finding.remedy for finding in found if finding.code == "CC214"] == [
        "Write isOutbox: Connect takes the blanks for a part of the name."
    ]
    assert TOPIC_NAMES in changed(Kind.POSTGRESQL, {}).values()
