import logging

import pytest
from confluent_kafka import Consumer, KafkaError

from cdc_outbox import ConfigError
from cdc_outbox.errors import BrokerError, BrokerUnavailableError
from cdc_outbox.kafka import Topics, consumer_settings, make_consumer, translate


def test_offsets_follow_the_effects_whatever_the_user_sets() -> None:
    settings = consumer_settings(bootstrap_servers="b:1", group="g", extra={"session.timeout.ms": 6000})
    assert settings["session.timeout.ms"] == 6000
    assert (settings["bootstrap.servers"], settings["group.id"]) == ("b:1", "g")
    assert settings["enable.auto.commit"] is settings["enable.auto.offset.store"] is False
    assert (settings["auto.offset.reset"], settings["isolation.level"]) == ("earliest", "read_committed")


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


def made(**extra: object) -> Consumer:
    settings = consumer_settings(bootstrap_servers="127.0.0.1:1", group="g", extra=extra)
    return make_consumer(settings, logging.getLogger("silent"))


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
    assert isinstance(translate(KafkaError(KafkaError._ALL_BROKERS_DOWN)), BrokerUnavailableError)
    refused = translate(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert type(refused) is BrokerError
    assert not refused.retryable
