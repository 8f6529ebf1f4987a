import json
import logging
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException

from cdc_outbox import ConfigError
from cdc_outbox.consumer import Consumer as OutboxConsumer
from cdc_outbox.consumer import Limits, SequenceMode, WireContract
from cdc_outbox.errors import BrokerError, BrokerUnavailableError
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.kafka.broker_errors import raise_stopping, translate
from cdc_outbox.kafka.clients import connection_settings, consumer_settings, make_consumer, settings_reporting
from cdc_outbox.kafka.reading import message_of


def test_offsets_follow_the_effects_whatever_the_user_sets() -> None:
    settings = consumer_settings(bootstrap_servers="b:1", group="g", extra={"session.timeout.ms": 6000})
    assert settings["session.timeout.ms"] == 6000
    assert (settings["bootstrap.servers"], settings["group.id"]) == ("b:1", "g")
    assert settings["enable.auto.commit"] is settings["enable.auto.offset.store"] is False
    assert (settings["auto.offset.reset"], settings["isolation.level"]) == ("earliest", "read_committed")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_client_is_back_within_half_a_minute_of_its_broker_by_default(protocol: str) -> None:
    """Beside what its broker takes to start, the broker waits for members that it knew: so long, 45 s by default."""
    extra = {} if protocol == "classic" else {"group.protocol": protocol}
    settings = consumer_settings(bootstrap_servers="b:1", group="g", extra=extra)
    assert settings.get("session.timeout.ms") == (15_000 if protocol == "classic" else None)
    refresh = "topic.metadata.refresh.interval.ms"
    assert settings[refresh] == connection_settings(settings)[refresh] == connection_settings({})[refresh] == 5_000
    assert connection_settings({refresh: 1_000})[refresh] == 1_000


@pytest.mark.parametrize(
    "key",
    [
        "allow.auto.create.topics",
        "auto.commit.enable",
        "auto.offset.reset",
        "default.topic.config",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "group.id",
        "isolation.level",
        "metadata.broker.list",
        "on_commit",
    ],
)
def test_a_setting_that_breaks_a_promise_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} cannot be set"):
        consumer_settings(bootstrap_servers="b:1", group="g", extra={key: "x"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("plugin.library.paths", "./evil.so"),
        ("ssl.engine.location", "./evil.so"),
        ("ssl.engine.id", "evil"),
        ("ssl_engine_callback_data", "evil"),
        ("ssl.providers", "evil"),
        ("sasl.kerberos.kinit.cmd", "touch evil"),
        ("sasl.kerberos.principal", "orders; touch evil"),
        ("sasl.kerberos.keytab", "$(touch evil)"),
        ("sasl.kerberos.service.name", "`touch evil`"),
    ],
)
def test_a_setting_that_runs_code_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} cannot be set: librdkafka") as caught:
        consumer_settings(bootstrap_servers="b:1", group="g", extra={key: value})
    assert "evil" not in str(caught.value)


def test_kerberos_names_are_taken() -> None:
    extra = {"sasl.kerberos.principal": "orders/host-1.x@EXAMPLE.COM", "sasl.kerberos.keytab": "/etc/orders_1.keytab"}
    assert consumer_settings(bootstrap_servers="b:1", group="g", extra=extra).items() >= extra.items()


def made(**extra: object) -> Consumer:
    settings = consumer_settings(bootstrap_servers="127.0.0.1:1", group="g", extra=extra)
    return make_consumer(settings, logging.getLogger("silent"))


@pytest.mark.parametrize("batch_bytes", [1, 16_000_000, 10**12])
def test_librdkafka_reads_no_more_ahead_than_a_batch(batch_bytes: int) -> None:
    made(**Limits(batch_bytes=batch_bytes).queue_settings).close()


def test_a_consumer_bounds_the_queue_of_librdkafka_and_what_it_asks_brokers_for_unless_it_is_told_otherwise() -> None:
    def settings(**theirs: object) -> dict[str, object]:
        consumer = OutboxConsumer(
            name="g",
            contract=WireContract(aggregates={"order": SequenceMode.GAPLESS}),
            kafka={"bootstrap.servers": "127.0.0.1:1", **theirs},
            database=lambda: None,
            limits=Limits(batch_bytes=10_000_000),
        )
        return consumer._settings

    assert settings()["queued.max.messages.kbytes"] == 9765
    # librdkafka refuses less than what it asks brokers for.
    make_consumer(settings(**{"receive.message.max.bytes": 10_000_512}), logging.getLogger("silent")).close()
    assert settings(**{"queued.max.messages.kbytes": 7})["queued.max.messages.kbytes"] == 7


def test_a_consumer_takes_the_brokers_addresses_or_librdkafkas_settings() -> None:
    def settings(kafka: str | dict[str, object]) -> dict[str, object]:
        contract = WireContract(aggregates={"order": SequenceMode.GAPLESS})
        return OutboxConsumer(name="g", contract=contract, kafka=kafka, database=lambda: None)._settings

    given: dict[str, object] = {"bootstrap.servers": "b:1"}
    assert settings("b:1") == settings(given)
    assert given == {"bootstrap.servers": "b:1"}
    nowhere: list[str | dict[str, object]] = ["", {"session.timeout.ms": 6000}]
    lists: Any = ["b:1"]
    with pytest.raises(ConfigError, match="kafka must be a str or a mapping, not list"):
        settings(lists)
    for kafka in nowhere:
        with pytest.raises(ConfigError, match=r"kafka has no bootstrap\.servers"):
            settings(kafka)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_both_group_protocols_can_be_chosen(protocol: str) -> None:
    made(**{"group.protocol": protocol}).close()


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"no.such.thing": 1}, 'No such configuration property: "no.such.thing"'),
        ({"session.timeout.ms": "soon"}, "session.timeout.ms"),
        ({"error_cb": "not a function"}, "wrong type"),
    ],
)
def test_a_setting_that_librdkafka_refuses_is_named(extra: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        made(**extra)


def test_who_asks_for_topics_is_told_of_a_wrong_setting_too() -> None:
    settings = consumer_settings(bootstrap_servers="b:1", group="g", extra={"security.protocol": "nonsense"})
    with pytest.raises(ConfigError, match=r"security\.protocol"):
        Topics(settings, logging.getLogger("silent"))


def test_errors_are_told_apart_by_their_code() -> None:
    passing = [KafkaError._ALL_BROKERS_DOWN, KafkaError._UNKNOWN_PARTITION, KafkaError.NOT_COORDINATOR]
    assert {type(translate(KafkaError(code))) for code in passing} == {BrokerUnavailableError}
    named = translate(KafkaError(KafkaError._TRANSPORT), "127.0.0.1:1")
    assert str(named) == "the brokers 127.0.0.1:1 do not answer (_TRANSPORT)"
    assert str(translate(KafkaError(KafkaError._ALL_BROKERS_DOWN))) == "the brokers do not answer (_ALL_BROKERS_DOWN)"
    asked = translate(KafkaError(KafkaError.NOT_COORDINATOR), "127.0.0.1:1")
    assert str(asked).endswith("(NOT_COORDINATOR); the brokers asked are 127.0.0.1:1")
    refused = translate(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert type(refused) is BrokerError
    assert not refused.retryable


@pytest.mark.parametrize(
    ("code", "stops"),
    [
        (KafkaError._ALL_BROKERS_DOWN, set()),
        (KafkaError.UNKNOWN, set()),
        (KafkaError.NOT_COORDINATOR, set()),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, set()),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, {False}),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, {False}),
        (KafkaError._AUTHENTICATION, {False}),
        (KafkaError.FENCED_INSTANCE_ID, {False, True}),
        (KafkaError.INVALID_SESSION_TIMEOUT, {False, True}),
        (KafkaError.UNSUPPORTED_VERSION, {False, True}),
    ],
)
def test_which_errors_stop_a_consumer_before_it_has_partitions_and_after(code: int, stops: set[bool]) -> None:
    for has_joined in (False, True):
        with pytest.raises(BrokerError) if has_joined in stops else nullcontext():
            raise_stopping(KafkaError(code), has_joined=has_joined)


def stops_at(code: int, *, has_joined: bool) -> bool:
    try:
        raise_stopping(KafkaError(code), has_joined=has_joined)
    except BrokerError:
        return True
    return False


def test_the_table_of_errors_says_of_each_whether_it_stops_a_consumer() -> None:
    page = (Path(__file__).parents[2] / "docs" / "consuming.md").read_text()
    table = page[page.index("| what Kafka reports") :].split("\n\n")[0].splitlines()[2:]
    stopping = {"waits": (False, False), "stops, until": (True, False), "stops with": (True, True)}
    said: dict[str, tuple[bool, bool]] = {}
    for line in table:
        _, errors, does, _ = line.split("|")
        [stops] = [stops for begin, stops in stopping.items() if does.strip().startswith(begin)]
        named = re.findall("`([^`]+)`", errors)
        assert not said.keys() & set(named)
        said |= dict.fromkeys(named, stops)
    codes = {name: code for name, code in vars(KafkaError).items() if isinstance(code, int)}
    assert said.keys() <= codes.keys()
    assert (True, True) in said.values()
    for name, code in codes.items():
        if name != "NO_ERROR":
            found = stops_at(code, has_joined=False), stops_at(code, has_joined=True)
            assert (name, found) == (name, said.get(name, (True, True)))


def test_a_fatal_error_stops_a_consumer_whatever_its_code() -> None:
    with pytest.raises(BrokerError):
        raise_stopping(KafkaError(KafkaError._ALL_BROKERS_DOWN, fatal=True), has_joined=True)


@pytest.mark.parametrize(
    ("states", "expected"), [(["DOWN", "UP"], [True]), (["DOWN", "TRY_CONNECT"], [False]), ([], [False])]
)
def test_a_consumer_is_told_whether_any_broker_is_connected(states: list[str], expected: list[bool]) -> None:
    told: list[bool] = []
    theirs: list[str] = []
    settings = settings_reporting({"stats_cb": theirs.append, "statistics.interval.ms": 700}, told.append)
    text = json.dumps({"brokers": {str(number): {"state": state} for number, state in enumerate(states)}})
    settings["stats_cb"](text)
    assert (told, theirs, settings["statistics.interval.ms"]) == (expected, [text], 700)
    assert settings_reporting({}, told.append)["statistics.interval.ms"] == 5000


class _Admin:
    """Brokers whose answers about offsets are errors at first."""

    def __init__(self, *codes: int) -> None:
        self._codes, self.asked = [*codes], 0

    def list_topics(self, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        return SimpleNamespace(topics={"orders": SimpleNamespace(partitions={0: None, 1: None})})

    def list_offsets(self, places: Mapping[object, object], request_timeout: float) -> dict[object, Future[Any]]:
        assert request_timeout > 0
        self.asked += 1
        found: dict[object, Future[Any]] = {place: Future() for place in places}
        code = self._codes.pop(0) if self._codes else None
        for answer in found.values():
            if code is None:
                answer.set_result(SimpleNamespace(offset=7))
            else:
                answer.set_exception(KafkaException(KafkaError(code)))
        return found


def topics_of(admin: _Admin, monkeypatch: pytest.MonkeyPatch) -> Topics:
    monkeypatch.setattr("cdc_outbox.kafka.confluent.AdminClient", lambda *_, **__: admin)
    return Topics({"bootstrap.servers": "127.0.0.1:1"}, logging.getLogger("silent"))


def test_the_ends_of_a_topic_that_was_just_made_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH, KafkaError.LEADER_NOT_AVAILABLE]
    admin = _Admin(*codes)
    assert topics_of(admin, monkeypatch).ends(name for name in ("orders", "absent")) == {"orders": 14}
    assert admin.asked == len(codes) + 1


def test_an_error_about_ends_that_does_not_pass_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = _Admin(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        topics_of(admin, monkeypatch).ends(["orders"])
    assert admin.asked == 1


def test_an_error_about_ends_that_passes_is_waited_out_no_longer_than_the_brokers_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cdc_outbox.kafka.admin._ADMIN_SECONDS", 0.2)
    admin = _Admin(*[KafkaError.UNKNOWN_LEADER_EPOCH] * 1000)
    with pytest.raises(BrokerUnavailableError, match="UNKNOWN_LEADER_EPOCH"):
        topics_of(admin, monkeypatch).ends(["orders"])
    assert 1 < admin.asked < 20


class _Record:
    """A record of the client, whose headers it can return or not: then it says so once, and returns a part later."""

    def __init__(self, headers: list[tuple[str, bytes | None]], *, is_broken: bool = False) -> None:
        self._headers: Any = headers
        self._is_broken = is_broken

    def headers(self) -> Any:
        if self._is_broken:
            self._is_broken = False
            raise SystemError("returned a result with an exception set")
        return self._headers

    def set_headers(self, headers: Any) -> None:
        self._headers = headers

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return {
            "key": lambda: b"key",
            "value": lambda: b"value",
            "timestamp": lambda: (TIMESTAMP_NOT_AVAILABLE, 0),
        }.get(name, lambda: None)


def test_the_bytes_of_a_record_are_those_of_key_value_and_headers() -> None:
    record = cast("Any", _Record([("ü", b"123"), ("null", None)]))
    assert message_of(record).size == 3 + 5 + 2 + 3 + 4
    assert message_of(cast("Any", _Record([]))).size == 8


def test_that_the_headers_of_a_record_cannot_be_read_is_known_each_time_it_is_read() -> None:
    record = cast("Any", _Record([("first", b"1")], is_broken=True))
    for _ in range(2):
        message = message_of(record)
        assert (message.headers, message.has_headers) == ((), False)
