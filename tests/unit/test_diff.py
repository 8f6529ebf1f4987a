"""What a deployment would change is told by meaning, with what it does to consumers and without a secret."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.diff import OptionChange, changes_between, version_of
from cdc_outbox.debezium.options.behavior import ImpactLevel
from cdc_outbox.debezium.render import render
from cdc_outbox.redaction import MASK, SecretRedactor
from cdc_outbox.spec import parse_spec
from tests.support.configs import CLEAN
from tests.support.specs import MINIMAL

RENDERED = render(parse_spec(MINIMAL, name="x.yaml"))
ROUTER = "transforms.outbox."
PLACEMENT = f"{ROUTER}table.fields.additional.placement"
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def changed(changes: Mapping[str, str | None], config: Mapping[str, str] = RENDERED) -> dict[str, str]:
    return {option: value for option, value in {**config, **changes}.items() if value is not None}


def lines(changes: Mapping[str, str | None]) -> list[str]:
    return list(map(str, changes_between(RENDERED, changed(changes))))


@pytest.mark.parametrize(
    "same",
    [
        {"max.batch.size": "2048", "errors.tolerance": "none"},
        {"skipped.operations": "t,u, d", "tasks.max": "3"},
        {"connector.class": "PostgresConnector", "key.converter": "StringConverter"},
        {"database.sslcert": "", "poll.interval.ms": "010"},
        {f"{ROUTER}table.field.event.type": "type"},
        dict(reversed(RENDERED.items())),
    ],
)
def test_what_is_only_written_otherwise_is_no_change(same: Mapping[str, str | None]) -> None:
    assert lines(same) == []


def test_an_alias_and_an_old_name_are_no_change() -> None:
    alias = {option.replace(ROUTER, "transforms.saga."): value for option, value in RENDERED.items()}
    assert changes_between({**alias, "transforms": "saga"}, RENDERED) == ()
    before = changed({"topic.prefix": None, "database.server.name": RENDERED["topic.prefix"]})
    assert changes_between(before, RENDERED) == ()


def test_a_change_is_shown_as_it_is_written() -> None:
    assert lines({"poll.interval.ms": "500"}) == ["~ poll.interval.ms = 10 -> 500"]  # which is Debezium's default
    assert lines({"producer.override.linger.ms": "0"}) == ["+ producer.override.linger.ms = 0"]
    assert lines({"poll.interval.ms": None}) == ["- poll.interval.ms = 10"]
    renamed, *_ = changes_between(changed({"topic.prefix": None, "database.server.name": "old"}), RENDERED)
    assert str(renamed) == f"~ topic.prefix (was database.server.name) = old -> {RENDERED['topic.prefix']}"


def test_what_differs_in_the_predicate_that_both_name_is_seen() -> None:
    [change] = changes_between(RENDERED, changed({"predicates.isOutbox.pattern": "elsewhere"}))
    assert change.option == f"{ROUTER}predicate"
    assert "elsewhere" in str(change)
    assert change.is_dangerous


@pytest.mark.parametrize(
    "changes",
    [
        {"slot.name": "other"},
        {"publication.name": "other"},
        {"topic.prefix": "other"},
        {"key.converter": JSON},
        {"key.converter": JSON, "key.converter.schemas.enable": "false"},
        {"producer.override.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
        {PLACEMENT: f"{RENDERED[PLACEMENT]},shard:partition"},
        {"snapshot.mode": "always"},
        {f"{ROUTER}route.topic.replacement": "elsewhere.${routedByValue}"},
        {f"{ROUTER}route.by.field": "type"},
        {f"{ROUTER}table.field.event.key": "id"},
        {"table.include.list": "public.other"},
        {"connector.class": DatabaseKind.MYSQL.connector_class},
        {"plugin.name": "decoderbufs"},
    ],
)
def test_what_loses_repeats_or_reorders_events_is_dangerous_either_way(changes: Mapping[str, str]) -> None:
    other = changed(changes)
    for before, after in ((RENDERED, other), (other, RENDERED)):
        assert any(change.is_dangerous for change in changes_between(before, after)), changes


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({"poll.interval.ms": "5"}, ImpactLevel.CONNECTOR, "sooner or later"),
        ({"database.password": "${env:OTHER}"}, ImpactLevel.CONNECTOR, "connects differently"),
        ({"value.converter": JSON}, ImpactLevel.MESSAGES, "another form"),
        ({PLACEMENT: f"{RENDERED[PLACEMENT]},tenant:header"}, ImpactLevel.MESSAGES, "get more headers"),
        ({PLACEMENT: "type:header:eventType"}, ImpactLevel.MESSAGES, "lose a header"),
        ({f"{ROUTER}route.tombstone.on.empty.payload": "true"}, ImpactLevel.MESSAGES, "another form"),
        ({"topic.creation.default.partitions": "6"}, ImpactLevel.CONNECTOR, "New topics get other settings"),
        ({"max.batch.size": "99"}, ImpactLevel.CONNECTOR, "sooner or later"),
        ({"slot.drop.on.stop": "true"}, ImpactLevel.CONNECTOR, "Nothing is known"),
    ],
)
def test_other_changes_say_what_consumers_notice(changes: Mapping[str, str], level: ImpactLevel, text: str) -> None:
    [change] = changes_between(RENDERED, changed(changes))
    assert change.effect is not None
    assert (change.effect.level, text in change.effect.text) == (level, True)


def test_to_stop_looking_at_rows_is_no_danger_and_to_begin_is_one() -> None:
    first = changed({"snapshot.mode": "initial"})
    [stops], [begins] = changes_between(first, RENDERED), changes_between(RENDERED, first)
    assert (stops.is_dangerous, begins.is_dangerous) == (False, True)


def test_of_a_connector_that_does_not_exist_nobody_reads() -> None:
    found = changes_between(None, RENDERED)
    assert {change.option for change in found} == set(RENDERED)
    assert not any(change.effect for change in found)


@pytest.mark.parametrize("kind", CAPTURED)
def test_nothing_differs_from_itself(kind: DatabaseKind) -> None:
    assert changes_between(CLEAN[kind], CLEAN[kind]) == ()


SECRETS = (
    "database.password",
    "producer.override.sasl.jaas.config",
    "value.converter.basic.auth.user.info",
    "database.ssl.keystore.password",
    "schema.history.internal.consumer.ssl.key.password",
    "x.api.key",
    "mongodb.connection.string",
    "database.url",
)


@given(
    option=st.sampled_from(SECRETS),
    secret=st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=12, max_size=20),
)
def test_no_secret_is_shown_however_it_changes(option: str, secret: str) -> None:
    value = {
        "mongodb.connection.string": f"mongodb://me:{secret}@db",
        "database.url": f"jdbc:x:password={secret}",
        "producer.override.sasl.jaas.config": f'x.PlainLoginModule required username="me" password="{secret}";',
        "value.converter.basic.auth.user.info": f"me:{secret}",
    }.get(option, secret)
    for change in (
        OptionChange(option, value, "${env:X}"),
        OptionChange(option, None, value),
        OptionChange(option, "x", value),
    ):
        assert secret not in str(change)
        assert MASK in str(change)


@given(secret=st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=12, max_size=20))
def test_a_trace_that_quotes_a_secret_is_shown_without(secret: str) -> None:
    config = {"value.converter.basic.auth.user.info": f"me:{secret}", "slot.name": "orders"}
    config["producer.override.sasl.jaas.config"] = f'x.PlainLoginModule required password="{secret}";'
    trace = f"ConfigException: Invalid value me:{secret} for x; password='{secret}'; slot orders; ${{env:PASSWORD}}"
    veil = SecretRedactor()
    veil.remember_options(config)
    shown = veil.over(trace)
    assert secret not in shown
    assert "slot orders; ${env:PASSWORD}" in shown


def test_a_password_is_not_shown_without_the_backslashes_that_it_was_written_with() -> None:
    veil = SecretRedactor()
    veil.remember_options({"producer.override.sasl.jaas.config": r'x.LoginModule required password="hun\"ter\\2";'})
    assert veil.over('no login with hun"ter\\2') == f"no login with {MASK}"


def test_an_empty_password_before_a_secret_hides_nothing_and_harms_nothing() -> None:
    veil = SecretRedactor()
    veil.remember_options({"producer.override.sasl.jaas.config": 'x.LoginModule required password="" token="hunter2";'})
    assert veil.over("no login with hunter2") == f"no login with {MASK}"


def test_a_version_is_that_of_debezium() -> None:
    assert version_of("3.6.0.Final") == (3, 6)
    assert version_of("") == version_of("unknown") == (3, 7)
