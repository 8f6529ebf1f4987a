"""Where librdkafka's settings are chosen, and its records read."""

import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from operator import methodcaller
from typing import Any, cast

from cdc_outbox import kafka_client, message
from cdc_outbox.errors import BrokerError, ConfigError
from cdc_outbox.kafka_errors import answered, translate
from cdc_outbox.kafka_refusals import refuse_settings
from cdc_outbox.topic import Topic

_ABOUT_CONNECTIONS = re.compile(
    r"(api|broker|client|connections|https|metadata|oauth|reconnect|resolve|sasl|security|socket|ssl|enable\.(sasl|ssl))[._].*"
)
"""Settings of a consumer that an admin client takes too."""
MEMBERSHIP = frozenset(
    {"group.protocol", "group.remote.assignor", "group.instance.id", "partition.assignment.strategy"}
)
"""Settings of a member of a group; a client that only asks about the group takes none of them."""
_ADMIN_SECONDS = 10.0
_PORTION = 50
"""How many messages are taken from the client at once, before their bytes are looked at."""
_STATISTICS_MILLISECONDS = 5000
"""How often librdkafka tells what it is connected to: a broker that is gone is seen within that time."""
_REACH_SECONDS = 5.0
"""How long the first contact with the brokers may take before they count as out of reach."""


class _Repeats(logging.Filter):
    """Lets through once a minute what librdkafka says at every attempt."""

    _VARYING = re.compile(r"\(after .*")
    _SECONDS = 60

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether it is new."""
        text, now = self._VARYING.sub("", record.getMessage()), time.monotonic()
        is_new = self._said.get(text, -math.inf) < now - self._SECONDS
        if is_new:
            self._said = {known: said for known, said in self._said.items() if said >= now - self._SECONDS}
            self._said[text] = now
        return is_new


_REPEATS = _Repeats()


def consumer_settings(*, bootstrap_servers: str, group: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's settings for a consumer whose offsets follow its effects.

    Args:
        extra: The user's own settings: security, timeouts, assignment strategy.

    Raises:
        ConfigError: A setting would break a promise, or run code.
    """
    refuse_settings(extra)
    # Leaving partitions where they are: after a member came or went, the others go on without a pause. The newer
    # protocol does so by itself, and takes no strategy.
    newer = str(extra.get("group.protocol", "classic")).lower() == "consumer"
    return {
        **({} if newer else {"partition.assignment.strategy": "cooperative-sticky"}),
        # A topic that Connect creates after the consumer started is seen within this time, not in five minutes.
        "topic.metadata.refresh.interval.ms": 5_000,
        **extra,
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
    }


def make_consumer(settings: Mapping[str, Any], logger: logging.Logger) -> "kafka_client.Consumer":
    """Return a client, not subscribed to anything yet.

    Raises:
        ConfigError: librdkafka does not know a setting, or refuses its value.
    """
    logger.addFilter(_REPEATS)
    with _refusing_settings():
        return kafka_client.Consumer(dict(settings), logger=logger)


@contextmanager
def _refusing_settings() -> Iterator[None]:
    try:
        yield
    except kafka_client.KafkaException as error:
        raise ConfigError(error.args[0].str(), field="kafka") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"a setting has a value of the wrong type: {error}", field="kafka") from error


def find_topics(
    client: "kafka_client.Consumer", within_seconds: float = _REACH_SECONDS, servers: str = ""
) -> dict[str, list[int]]:
    """Return the topics that there are, each with its partitions: the first contact with the brokers.

    Raises:
        BrokerUnavailableError: None of them answers; it names the ``servers``.
    """
    # Asked for all: to ask for one that does not exist makes librdkafka wait for it.
    try:
        found = client.list_topics(timeout=within_seconds).topics
    except kafka_client.KafkaException as error:
        raise translate(error.args[0], servers) from error
    return {name: list(topic.partitions) for name, topic in found.items()}


def polled(
    client: "kafka_client.Consumer", seconds: float, events: int, most_bytes: float = math.inf
) -> "Iterator[kafka_client.Message[bytes, bytes]]":
    """Yield up to so many messages: wait for the first, and take the rest as far as they are there.

    Args:
        most_bytes: Of keys, values and headers, after which no more is taken; a few messages may come on top.
    """
    first = client.poll(seconds)
    if first is None:
        return
    yield first
    events, most_bytes = events - 1, most_bytes - bytes_of(first)
    while events > 0 and most_bytes > 0:
        # A timeout here would be waited out in full, for want of as many messages.
        portion = client.consume(min(events, _PORTION), 0)
        yield from portion
        if len(portion) < _PORTION:
            return
        events, most_bytes = events - _PORTION, most_bytes - sum(map(bytes_of, portion))


def bytes_of(record: "kafka_client.Message[bytes, bytes]") -> int:
    """Return how many bytes key, value and headers of a record have; headers that the client cannot return count 0."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in _headers_of(record) or ())
    return len(record.value() or b"") + len(record.key() or b"") + headers


def connection_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a consumer's settings that are about the way to the brokers, which any client takes."""
    return {key: value for key, value in settings.items() if _ABOUT_CONNECTIONS.fullmatch(key)}


class Topics:
    """The topics of some brokers.

    Args:
        settings: librdkafka's, of which those about the connection are used.

    Raises:
        ConfigError: librdkafka refuses one of them.
    """

    def __init__(self, settings: Mapping[str, Any], logger: logging.Logger) -> None:
        connection = connection_settings(settings) | {"bootstrap.servers": settings["bootstrap.servers"]}
        self._servers = str(settings["bootstrap.servers"])
        with _refusing_settings():
            self._admin = kafka_client.AdminClient(connection, logger=logger)

    def find(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return those that exist, by their names.

        Raises:
            BrokerError: The brokers do not answer, or do not tell.
        """
        try:
            # Asked for all topics: asking for one that does not exist yet makes some brokers create it.
            known = self._admin.list_topics(timeout=_ADMIN_SECONDS).topics
            there = {name: known[name].partitions for name in names if name in known}
            resources = [kafka_client.ConfigResource(kafka_client.ResourceType.TOPIC, name) for name in there]
            asked = self._admin.describe_configs(resources, request_timeout=_ADMIN_SECONDS) if resources else {}
            configs = {resource.name: answer.result() for resource, answer in asked.items()}
        except kafka_client.KafkaException as error:
            raise translate(error.args[0], self._servers) from error
        return {
            name: Topic(
                name=name,
                partitions=len(partitions),
                replication_factor=min((len(each.replicas) for each in partitions.values()), default=0),
                config={key: entry.value for key, entry in configs[name].items() if entry.value is not None},
            )
            for name, partitions in there.items()
        }

    def cluster_id(self) -> str:
        """Return the cluster's id, empty where the brokers have none.

        Raises:
            BrokerError: The brokers do not answer.
        """
        try:
            found: str | None = self._admin.list_topics(timeout=_ADMIN_SECONDS).cluster_id
        except kafka_client.KafkaException as error:
            raise translate(error.args[0], self._servers) from error
        return found or ""

    def ends(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sum of the next offsets of a topic's partitions, for those that exist.

        Raises:
            BrokerError: The brokers do not answer, or do not tell.
        """
        try:
            return answered(partial(self._asked_ends, [*names]), _ADMIN_SECONDS)
        except kafka_client.KafkaException as error:
            raise translate(error.args[0], self._servers) from error

    def _asked_ends(self, names: Sequence[str]) -> dict[str, int]:
        known = self._admin.list_topics(timeout=_ADMIN_SECONDS).topics
        places = [
            kafka_client.TopicPartition(name, each)
            for name in names
            if name in known
            for each in known[name].partitions
        ]
        wanted = {place: kafka_client.OffsetSpec.latest() for place in places}  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(wanted, request_timeout=_ADMIN_SECONDS) if wanted else {}
        found: dict[str, int] = {}
        for place, answer in asked.items():
            found[place.topic] = found.get(place.topic, 0) + answer.result().offset
        return found

    def create(self, topics: Iterable[Topic]) -> dict[str, bool | BrokerError]:
        """Create topics, one at least; return of each whether this call made it, or why the brokers refuse.

        ``False`` where another process made it meanwhile.
        """
        wanted = [
            kafka_client.NewTopic(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                config=dict(topic.config),
            )
            for topic in topics
        ]
        asked = self._admin.create_topics(wanted, request_timeout=_ADMIN_SECONDS)
        return {name: self._created(answer) for name, answer in asked.items()}

    def _created(self, answer: "Future[None]") -> bool | BrokerError:
        try:
            answer.result()
        except kafka_client.KafkaException as error:
            there = error.args[0].code() == kafka_client.KafkaError.TOPIC_ALREADY_EXISTS
            return False if there else translate(error.args[0], self._servers)
        return True


def find_retentions(
    names: Iterable[str], *, settings: Mapping[str, Any], logger: logging.Logger
) -> dict[str, float | None]:
    """Return how many seconds a topic may keep a record, ``None`` for ever; topics that do not exist are left out.

    Args:
        settings: librdkafka's, of which those about the connection are used.

    Raises:
        BrokerError: The brokers do not answer, or do not tell.
    """
    return {name: retention_seconds(topic.config) for name, topic in Topics(settings, logger).find(names).items()}


def retention_seconds(config: Mapping[str, str]) -> float | None:
    """Return how long a topic of this configuration may keep a record, ``None`` for ever.

    A segment goes as a whole, when its newest record is old enough: its oldest is older by what a segment spans.
    """
    milliseconds = int(config["retention.ms"])
    if milliseconds < 0 or "delete" not in config["cleanup.policy"].split(","):
        return None
    return (milliseconds + int(config["segment.ms"])) / 1000


def settings_telling(settings: Mapping[str, Any], told: Callable[[bool], None]) -> dict[str, Any]:
    """Return a consumer's settings with which it is told every few seconds whether it is connected to any broker.

    The user's own ``stats_cb`` is called too, as often as the user's ``statistics.interval.ms`` says.
    """
    theirs = settings.get("stats_cb")

    def tell(text: str) -> None:
        brokers = json.loads(text).get("brokers", {}).values()
        told(any(broker.get("state") == "UP" for broker in brokers))
        if theirs is not None:
            theirs(text)

    interval = settings.get("statistics.interval.ms") or _STATISTICS_MILLISECONDS
    return {**settings, "stats_cb": tell, "statistics.interval.ms": interval}


_read_headers = methodcaller("headers")
"""Not called as ``record.headers()``: the client returns a result although it set an error, and CPython, once it has
specialised such a call, does not check for that. The error would come up in whatever is called next."""


_UNREADABLE: Any = object()
"""What stands for the headers of a record that the client could not return."""


def _headers_of(record: "kafka_client.Message[bytes, bytes]") -> list[tuple[str, bytes | None]] | None:
    """Return the headers of a record, ``None`` for those with a name that is not UTF-8.

    Kafka takes any bytes as a header's name, and the client decodes them. It says only once that it cannot, and returns
    what came before at the next call: so that is noted in the record itself.
    """
    try:
        headers = _read_headers(record) or []
    except (SystemError, UnicodeDecodeError):
        headers = _UNREADABLE
        record.set_headers(headers)
    return None if headers is _UNREADABLE else cast("list[tuple[str, bytes | None]]", headers)


def message_of(record: "kafka_client.Message[bytes, bytes]") -> message.Message:
    """Return a record of a topic as a value."""
    kind, timestamp = record.timestamp()
    headers = _headers_of(record)
    return message.Message(
        topic=record.topic() or "",
        partition=record.partition(),
        offset=record.offset(),
        key=record.key(),
        value=record.value(),
        headers=tuple(headers or ()),
        timestamp_ms=None if kind == kafka_client.TIMESTAMP_NOT_AVAILABLE else timestamp,
        has_headers=headers is not None,
    )
