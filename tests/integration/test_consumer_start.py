"""What a consumer says when it starts and something is missing or wrong."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

from cdc_outbox.consumer import InboxTable
from cdc_outbox.errors import (
    BrokerUnavailableError,
    ConfigError,
    DatabaseAccessError,
    DatabaseUnavailableError,
    TableNotFoundError,
)
from cdc_outbox.kafka import reading as kafka_reading
from tests.support.events import make_event
from tests.support.rig import eventually
from tests.support.service import Service, apply_effect
from tests.support.timings import QUICK_LIMITS


def test_a_topic_that_does_not_exist_yet_is_waited_for(service: Service) -> None:
    with service.running():
        service.pipeline.write(2)
        eventually(lambda: len(service.effects()) == 2, "two effects")


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"kafka": "127.0.0.1:1"}, BrokerUnavailableError, "_TRANSPORT"),
        ({"inbox": InboxTable(name="nowhere")}, TableNotFoundError, r'"public.nowhere\w*" does not exist'),
    ],
)
def test_what_cannot_be_reached_at_the_start_is_named(
    fed_service: Service, options: dict[str, Any], error: type[Exception], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = replace(QUICK_LIMITS, reach_seconds=1.0)
    find_topics = Mock(wraps=kafka_reading.find_topics)
    monkeypatch.setattr(kafka_reading, "find_topics", find_topics)
    fed_service.send(make_event(1))
    with pytest.raises(error, match=reason):
        fed_service.run_to_its_end(fed_service.consumer(limits=limits, **options))
    assert {call.args[1] for call in find_topics.call_args_list} == {limits.reach_seconds}


def test_a_database_that_refuses_or_is_not_there_is_named(fed_service: Service) -> None:
    dsn = fed_service.dsn
    with pytest.raises(DatabaseAccessError, match="password authentication failed"):
        fed_service.consumer(connect=lambda: psycopg.connect(dsn, password="wrong")).run()
    with pytest.raises(DatabaseUnavailableError, match="Connection refused"):
        fed_service.consumer(connect=lambda: psycopg.connect(dsn, port=1)).run()


def test_mistakes_in_the_code_are_named_when_it_is_made(fed_service: Service) -> None:
    consumer = fed_service.consumer()
    with pytest.raises(ConfigError, match="'OrderPlaced' already has a handler"):
        consumer.on("OrderPlaced")(apply_effect)
    with pytest.raises(ConfigError, match="must not be empty"):
        fed_service.consumer(name="")
    with pytest.raises(ConfigError, match="at most 255 bytes"):
        fed_service.consumer(name="ü" * 128)
    with pytest.raises(ConfigError, match=r"enable.auto.commit cannot be set"):
        fed_service.consumer(kafka_settings={"enable.auto.commit": True})
