import pytest
from confluent_kafka import KafkaError

from cdc_outbox import ConfigError
from cdc_outbox.errors import BrokerError, BrokerUnavailableError
from cdc_outbox.kafka import consumer_settings, translate


def test_offsets_follow_the_effects_whatever_the_user_sets() -> None:
    settings = consumer_settings(bootstrap_servers="b:1", group="g", extra={"session.timeout.ms": 6000})
    assert settings["session.timeout.ms"] == 6000
    assert (settings["bootstrap.servers"], settings["group.id"]) == ("b:1", "g")
    assert settings["enable.auto.commit"] is settings["enable.auto.offset.store"] is False
    assert (settings["auto.offset.reset"], settings["isolation.level"]) == ("earliest", "read_committed")


@pytest.mark.parametrize(
    "key",
    ["auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "group.id", "isolation.level"],
)
def test_a_setting_that_breaks_a_promise_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} cannot be set"):
        consumer_settings(bootstrap_servers="b:1", group="g", extra={key: "x"})


def test_errors_are_told_apart_by_their_code() -> None:
    assert isinstance(translate(KafkaError(KafkaError._ALL_BROKERS_DOWN)), BrokerUnavailableError)
    refused = translate(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert type(refused) is BrokerError
    assert not refused.retryable
