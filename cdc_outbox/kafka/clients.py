"""Where librdkafka's settings are chosen, which of them a user cannot set, and why."""

import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cdc_outbox.errors import ConfigError
from cdc_outbox.kafka import confluent

_SERVERS = "bootstrap.servers"
_REFUSED = {
    "allow.auto.create.topics": "a topic that is created automatically has the wrong number of partitions",
    "auto.commit.enable": "an offset may be committed only after its effects",
    "auto.offset.reset": "a consumer that does not start at the earliest offset skips events; one that needs no "
    "history begins with `cdc-outbox baseline SPEC --consumer NAME --from-now`",
    "bootstrap.servers": "it has its own parameter",
    "default.topic.config": "it would override every other setting",
    "enable.auto.commit": "an offset may be committed only after its effects",
    "enable.auto.offset.store": "an offset may be stored only after its effects",
    "enable.partition.eof": "the consumer does not use it",
    "group.id": "it is the consumer's name",
    "isolation.level": "effects of aborted producer transactions must not be applied",
    "metadata.broker.list": "it is another name of bootstrap.servers",
    "on_commit": "the consumer needs the answers itself",
}
"""Settings that would break a promise, and the reason."""
_RUNS_CODE = re.compile(r"plugin\..*|ssl[._]engine.*|ssl\.provider.*|sasl\.kerberos\.kinit\..*")
"""Settings by which librdkafka loads a library or starts a program: who may write the settings must not gain that."""
_IN_A_SHELL = re.compile(r"sasl\.kerberos\.(keytab|principal|service\.name)")
"""Settings that librdkafka puts into the shell command which renews a Kerberos ticket, unescaped."""
_SHELL_SAFE = re.compile(r"[\w.@:/=+-]*")


def refuse_settings(settings: Mapping[str, Any], refused: Mapping[str, str] = _REFUSED) -> None:
    """Refuse a user's settings for librdkafka if one of them would break a promise, or run code.

    Args:
        refused: Settings that would break a promise, and the reason; those of a consumer by default.

    Raises:
        ConfigError: One would, with its name and the reason, never with its value.
    """
    for key in sorted(settings):
        if reason := _refusal(key, settings[key], refused):
            raise ConfigError(f"{key} cannot be set: {reason}", field=f"kafka.{key}")


def _refusal(key: str, value: object, refused: Mapping[str, str]) -> str:
    """Return why a setting is refused, empty if it is not."""
    if _RUNS_CODE.fullmatch(key):
        return "librdkafka would load a library or start a program"
    if _IN_A_SHELL.fullmatch(key) and not _SHELL_SAFE.fullmatch(str(value)):
        return "librdkafka inserts it into a shell command, and a shell would interpret more than a name"
    return refused.get(key, "")


_ABOUT_CONNECTIONS = re.compile(
    r"(api|broker|client|connections|https|metadata|oauth|reconnect|resolve|sasl|security|socket|ssl|topic\.metadata|"
    r"enable\.(sasl|ssl))[._].*"
)
"""Settings of a consumer that an admin client takes too."""
MEMBERSHIP = frozenset(
    {"group.protocol", "group.remote.assignor", "group.instance.id", "partition.assignment.strategy"}
)
"""Settings of a member of a group; a client that only asks about the group takes none of them."""
_REFRESH = {"topic.metadata.refresh.interval.ms": 5_000}
"""How soon a client sees a topic that is created after it started. And how soon an admin client, which asks no more
often than every ten seconds, sees that a cluster which had none has a controller again: by default in five minutes."""
_SESSION = {"session.timeout.ms": 15_000}
"""A broker that has started again waits so long for the members that it knew, and those that come back are others. The
newer protocol has no such setting, and needs none."""
_STATISTICS_MILLISECONDS = 5000
"""How often librdkafka reports its connections: a broker that is gone is seen within that time."""


class _Repeats(logging.Filter):
    """Lets through once a minute what librdkafka says at every attempt."""

    _VARYING = re.compile(r"\(after .*")
    _SECONDS = 60

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether it is new."""
        text, now = self._VARYING.sub("", record.getMessage()), time.monotonic()
        is_new = self._said.get(text, -math.inf) < now - self._SECONDS
        if is_new:
            self._said = {known: said for known, said in self._said.items() if said >= now - self._SECONDS}
            self._said[text] = now
        return is_new


REPEATS = _Repeats()


_LEVELS = (50, 50, 50, 40, 30, 20, 20, 20)
"""What :mod:`logging` calls those of syslog, of which ``log_level`` is one; debug lines need ``debug``, too."""


def _least_level(settings: Mapping[str, Any]) -> int:
    """Return the least level of the lines that a user's settings ask librdkafka for."""
    return logging.DEBUG if settings.get("debug") else _LEVELS[min(max(int(settings.get("log_level", 6)), 0), 7)]


class _TopicIdLog:
    """A logger for librdkafka, which also reads in its lines which topic of a name the client fetches.

    Brokers from Kafka 3.1 on are asked for messages by the topic's id. When a topic was deleted and recreated, the
    client learns the new id with the metadata, and continues at the same offset. No callback and no statistics report
    it, only a debug line. It is in the queue of messages and callbacks before the id is used: a poll logs it before it
    returns the first message of the new topic.
    """

    _LEARNED = re.compile(r"\[thrd:[^]]*\]: Topic (\S+) changed id from \S+ to (\S+)")

    def __init__(self, logger: logging.Logger, learn: Callable[[str, str], None], least: int) -> None:
        self._logger, self._learn, self._least = logger, learn, least

    def log(self, level: int, text: str, *values: str) -> None:
        """Take a line: facility, client and text are its values."""
        if level == logging.DEBUG and values[0] == "METADATA" and (learned := self._LEARNED.fullmatch(values[-1])):
            self._learn(*learned.groups())
        if level >= self._least:
            self._logger.log(level, text, *values)


def given_settings(kafka: str | Mapping[str, Any], *, group: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's settings for a consumer, from the brokers' addresses or from the settings that a user gives.

    Args:
        extra: Settings that the user's replace.
    """
    hint = 'Pass "localhost:9092", or {"bootstrap.servers": "localhost:9092", …} with other librdkafka settings.'
    if not isinstance(kafka, str | Mapping):
        reason = f"kafka must be a str or a mapping, not {type(kafka).__name__}"
        raise ConfigError(reason, field="Consumer.kafka", hint=hint)
    given = {_SERVERS: kafka} if isinstance(kafka, str) else dict(kafka)
    servers = given.pop(_SERVERS, "")
    if not servers:
        raise ConfigError("kafka has no bootstrap.servers", field="Consumer.kafka", hint=hint)
    return consumer_settings(bootstrap_servers=servers, group=group, extra={**extra, **given})


def consumer_settings(*, bootstrap_servers: str, group: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's settings for a consumer whose offsets follow its effects.

    Args:
        extra: The user's own settings: security, timeouts, assignment strategy.

    Raises:
        ConfigError: A setting would break a promise, or run code.
    """
    refuse_settings(extra)
    # Leaving partitions where they are: after a member came or went, the others continue without a pause. The newer
    # protocol does so by itself, and takes no strategy.
    newer = str(extra.get("group.protocol", "classic")).lower() == "consumer"
    return {
        **({} if newer else {"partition.assignment.strategy": "cooperative-sticky", **_SESSION}),
        **_REFRESH,
        **extra,
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
    }


def make_consumer(
    settings: Mapping[str, Any], logger: logging.Logger, *, learn: Callable[[str, str], None] | None = None
) -> "confluent.Consumer":
    """Return a client, not subscribed to anything yet.

    Args:
        learn: Called with a topic's name and id before a poll returns the first message of the topic that has this id.
            Brokers before Kafka 3.1 may send some before.

    Raises:
        ConfigError: librdkafka does not know a setting, or refuses its value.
    """
    logger.addFilter(REPEATS)
    with refusing_settings():
        if learn is None:
            return confluent.Consumer(dict(settings), logger=logger)
        debug = ",".join(filter(None, [settings.get("debug"), "metadata"]))
        log = _TopicIdLog(logger, learn, _least_level(settings))
        return confluent.Consumer({**settings, "debug": debug}, logger=log)


_SETTINGS = "Correct the name or the value; librdkafka's CONFIGURATION.md lists the settings."


@contextmanager
def refusing_settings() -> Iterator[None]:
    """Translate librdkafka's refusal of a setting into a ConfigError."""
    try:
        yield
    except confluent.KafkaException as error:
        raise ConfigError(error.args[0].str(), field="kafka", hint=_SETTINGS) from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"a setting has a value of the wrong type: {error}", field="kafka", hint=_SETTINGS) from error


def connection_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a consumer's settings that are about the way to the brokers, which any client takes."""
    return _REFRESH | {key: value for key, value in settings.items() if _ABOUT_CONNECTIONS.fullmatch(key)}


def settings_reporting(settings: Mapping[str, Any], report: Callable[[bool], None]) -> dict[str, Any]:
    """Return a consumer's settings that report every few seconds whether it is connected to any broker.

    The user's own ``stats_cb`` is called too, as often as the user's ``statistics.interval.ms`` says.
    """
    theirs = settings.get("stats_cb")

    def parse(text: str) -> None:
        brokers = json.loads(text).get("brokers", {}).values()
        report(any(broker.get("state") == "UP" for broker in brokers))
        if theirs is not None:
            theirs(text)

    interval = settings.get("statistics.interval.ms") or _STATISTICS_MILLISECONDS
    return {**settings, "stats_cb": parse, "statistics.interval.ms": interval}
