"""What the brokers say about topics, and what is asked of them."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from cdc_outbox.contract.topics import Topic, find_loss
from cdc_outbox.errors import BrokerError
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.broker_errors import answered, results_of, translate
from cdc_outbox.kafka.clients import connection_settings, refusing_settings

_ADMIN_SECONDS = 10.0


def shape_of(answer: "Future[confluent.TopicDescription]") -> tuple[str, int]:
    """Return the id of a topic that :meth:`Topics.ask_shapes` asked for, and its partitions; 0 if it does not exist.

    Raises:
        KafkaException: The brokers do not tell.
    """
    error = answer.exception()
    if error is not None and error.args[0].name() == "UNKNOWN_TOPIC_OR_PART":
        return "", 0
    described = results_of({"": answer})[""]
    return str(described.topic_id), len(described.partitions)


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
        with refusing_settings():
            self._admin = confluent.AdminClient(connection, logger=logger)

    def find(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return those that exist, by their names.

        Raises:
            BrokerError: The brokers do not answer, or do not tell.
        """
        try:
            # Asked for all topics: asking for one that does not exist yet makes some brokers create it.
            known = self._admin.list_topics(timeout=_ADMIN_SECONDS).topics
            there = {name: known[name].partitions for name in names if name in known}
            resources = [confluent.ConfigResource(confluent.ResourceType.TOPIC, name) for name in there]
            asked = self._admin.describe_configs(resources, request_timeout=_ADMIN_SECONDS) if resources else {}
            configs = {resource.name: found for resource, found in results_of(asked).items()}
        except confluent.KafkaException as error:
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

    def count_brokers(self) -> int:
        """Return how many brokers the cluster has.

        Raises:
            BrokerError: The brokers do not answer.
        """
        try:
            return len(self._admin.list_topics(timeout=_ADMIN_SECONDS).brokers)
        except confluent.KafkaException as error:
            raise translate(error.args[0], self._servers) from error

    def cluster_id(self) -> str:
        """Return the cluster's id, empty where the brokers have none.

        Raises:
            BrokerError: The brokers do not answer.
        """
        try:
            found: str | None = self._admin.list_topics(timeout=_ADMIN_SECONDS).cluster_id
        except confluent.KafkaException as error:
            raise translate(error.args[0], self._servers) from error
        return found or ""

    def ends(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sum of the next offsets of a topic's partitions, for those that exist.

        Raises:
            BrokerError: The brokers do not answer, or do not tell.
        """
        try:
            return answered(partial(self._asked_ends, [*names]), _ADMIN_SECONDS)
        except confluent.KafkaException as error:
            raise translate(error.args[0], self._servers) from error

    def _asked_ends(self, names: Sequence[str]) -> dict[str, int]:
        known = self._admin.list_topics(timeout=_ADMIN_SECONDS).topics
        partitions = [
            confluent.TopicPartition(name, each) for name in names if name in known for each in known[name].partitions
        ]
        wanted = {tp: confluent.OffsetSpec.latest() for tp in partitions}  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(wanted, request_timeout=_ADMIN_SECONDS) if wanted else {}
        found: dict[str, int] = {}
        for tp, answer in results_of(asked).items():
            found[tp.topic] = found.get(tp.topic, 0) + answer.offset
        return found

    def ask_shapes(self, names: Iterable[str]) -> "Mapping[str, Future[confluent.TopicDescription]]":
        """Ask what topics are, and wait for no answer."""
        asked = [*names]
        if not asked:
            return {}
        return self._admin.describe_topics(confluent.TopicCollection(asked), request_timeout=_ADMIN_SECONDS)

    def shapes(self, names: Iterable[str]) -> dict[str, tuple[str, int]]:
        """Return what topics are.

        Raises:
            BrokerError: The brokers do not answer, or do not tell.
        """
        try:
            return {name: shape_of(answer) for name, answer in self.ask_shapes(names).items()}
        except confluent.KafkaException as error:
            raise translate(error.args[0], self._servers) from error

    def create(self, topics: Iterable[Topic]) -> dict[str, bool | BrokerError]:
        """Create topics, one at least; return of each whether this call made it, or why the brokers refuse.

        ``False`` where another process made it meanwhile.
        """
        wanted = [
            confluent.NewTopic(
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
        error = answer.exception()
        if error is None:
            return True
        there = error.args[0].code() == confluent.KafkaError.TOPIC_ALREADY_EXISTS
        return False if there else translate(error.args[0], self._servers)


class MissingTopics:
    """Creates the topics that a producer writes to where they are missing, as Connect does.

    Args:
        wanted: Returns how to create a topic of this name; without it none is created.
        logger: Receives created topics, and topics that can lose messages.

    Attributes:
        known: The topics that :meth:`ensure` has nothing to do for.
    """

    def __init__(self, topics: Topics, wanted: Callable[[str], Topic] | None, logger: logging.Logger) -> None:
        self._topics, self._wanted, self._logger = topics, wanted, logger
        self.known = set[str]()

    def prepare(self, names: Sequence[str]) -> list[Topic]:
        """Create what is missing of these, and return those that exist.

        Raises:
            BrokerError: The brokers refuse it, or do not answer.
        """
        self.known.update(self._topics.find(names))
        for name in names if self._wanted else ():
            self.ensure(name)
        found, brokers = [*self._topics.find(names).values()], self._topics.count_brokers()
        for loss in filter(None, (find_loss(topic, brokers=brokers) for topic in found)):
            self._logger.warning("acknowledged messages can be lost: %s", loss)
        return found

    def ensure(self, name: str) -> None:
        """Create a topic unless it exists.

        Raises:
            BrokerError: The brokers refuse it, or do not answer.
        """
        if name not in self.known and self._wanted is not None and not self._topics.find([name]):
            created = self._topics.create([self._wanted(name)])[name]
            try:
                if isinstance(created, BrokerError):
                    raise created
            finally:
                del created
            self._logger.info("created the topic %s", name)
        self.known.add(name)


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
