"""Which offsets may be committed: those whose effects are."""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from cdc_outbox.consumer.fencing import TopicPartition, partition_of
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.broker_errors import translate
from cdc_outbox.message import Message

_log = logging.getLogger(__name__)

_INTERVAL_SECONDS = 0.2
"""How far a commit may lag behind the effects; a crash repeats that much, and the inbox skips it."""

_POLL_SECONDS = 0.05
"""How often the last commit's answer is looked for."""
_FINISH_SECONDS, _LEAVE_SECONDS = 5.0, 3.0
"""How long the last commit and the farewell may take: together well within the 30 s that Kubernetes leaves before it
kills."""

_NOT_A_MEMBER = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH"})
"""Answers of a group that took the client's partitions away; the last is one of the newer protocol. All others say
nothing against its membership: a client that left because of one would give up a partition without another owner."""

_TopicPartition = tuple[str, int]


class Offsets:
    """The offsets of applied events, committed a few times a second and before a partition is given up.

    Args:
        interval_seconds: Between two commits.
        finish_seconds: How long the last one may take.

    The loop does not wait for the answers: while a group rebalances they take as long as the rebalance does. The
    callback gets whether each answer was a commit. A refused commit is sent again. Only how much is repeated after a
    crash depends on it.
    """

    def __init__(
        self,
        *,
        report: Callable[[bool], None] = lambda _is_done: None,
        interval_seconds: float = _INTERVAL_SECONDS,
        finish_seconds: float = _FINISH_SECONDS,
    ) -> None:
        self._report, self._interval_seconds, self._finish_seconds = report, interval_seconds, finish_seconds
        self._done: dict[_TopicPartition, int] = {}
        self._committed: dict[_TopicPartition, int] = {}
        self._answered: set[_TopicPartition] = set()
        self._sent_at = 0.0
        self._finishing = False

    def begin(self, tp: TopicPartition, offset: int) -> None:
        """Note that the effects of all messages before an offset are committed."""
        self._done[tp] = offset

    def done(self, message: Message) -> None:
        """Note that a message's effects are committed."""
        self._done[partition_of(message)] = (message.offset or 0) + 1

    def commit(self, client: "confluent.Consumer") -> None:
        """Send what is not committed yet, unless that was done a moment ago."""
        now = time.monotonic()
        offsets = self._open()
        if offsets and now - self._sent_at >= self._interval_seconds:
            self._sent_at = now
            client.commit(offsets=offsets, asynchronous=True)

    def answered(self, error: "confluent.KafkaError | None", partitions: "list[confluent.TopicPartition]") -> None:
        """Take librdkafka's answer to a commit; it comes during a poll."""
        self._report(error is None)
        if error is not None:
            _log.info("committing offsets failed", extra={"reason": error.str()})
            return
        for partition in partitions:
            if partition.error is None:
                self._committed[partition.topic, partition.partition] = partition.offset
                self._answered.add((partition.topic, partition.partition))

    def take_answered(self) -> set[_TopicPartition]:
        """Return the partitions of which offsets were committed since this was asked last."""
        answered, self._answered = self._answered, set()
        return answered

    def finish(self, client: "confluent.Consumer") -> None:
        """Send the last offsets and wait a few seconds for the answer; leave what is polled to a successor."""
        self._finishing = True
        self._sent_at = 0.0
        deadline = time.monotonic() + self._finish_seconds
        while self._open() and time.monotonic() < deadline:
            self.commit(client)
            client.poll(_POLL_SECONDS)

    def revoke(self, client: "confluent.Consumer", partitions: "list[confluent.TopicPartition]") -> None:
        """Commit and wait, before the partitions go to another consumer."""
        offsets = self._open()
        # At the end it was waited for already; where no broker answers, this would wait for the session's timeout.
        if offsets and not self._finishing:
            try:
                client.commit(offsets=offsets, asynchronous=False)
            except confluent.KafkaException as error:
                _log.info("committing offsets failed", extra={"reason": error.args[0].str()})
        self.lose(client, partitions)

    def lose(self, _client: "confluent.Consumer", partitions: "list[confluent.TopicPartition]") -> None:
        """Forget partitions that belong to another consumer now."""
        for partition in partitions:
            self._done.pop((partition.topic, partition.partition), None)
            self._committed.pop((partition.topic, partition.partition), None)

    def _open(self) -> "list[confluent.TopicPartition]":
        return [
            confluent.TopicPartition(*tp, offset)
            for tp, offset in list(self._done.items())  # a callback may change it meanwhile
            if offset != self._committed.get(tp)
        ]


def leave(client: "confluent.Consumer", within_seconds: float = _LEAVE_SECONDS) -> None:
    """Leave the group and close the client.

    Where no broker answers, librdkafka waits as long as a session lasts for the commits that it still has. That then
    continues by itself: it costs repeats at most, and waiting for it could cost the process its orderly end.
    """
    closing = threading.Thread(target=client.close, name="leave the consumer group", daemon=True)
    closing.start()
    closing.join(within_seconds)
    if closing.is_alive():
        _log.warning("the brokers do not answer, so the group does not know that this consumer left")


def rewind(client: "confluent.Consumer", message: Message) -> None:
    """Have a message delivered again, unless its partition belongs to another consumer by now.

    Raises:
        BrokerError: The partition is still assigned and was not rewound; continuing would skip the message.
    """
    try:
        client.seek(confluent.TopicPartition(*partition_of(message), message.offset or 0))
    except confluent.KafkaException as error:
        if partition_of(message) in _owned(client):
            raise translate(error.args[0]) from error
        _log.info("rewinding a partition failed", extra={"reason": error.args[0].str()})


def lags_of(client: "confluent.Consumer", tps: Iterable[_TopicPartition]) -> dict[TopicPartition, int]:
    """Return how many messages of each partition were not polled yet, as far as the client knows without asking."""
    lags = {}
    try:
        for position in client.position([confluent.TopicPartition(*tp) for tp in tps]):
            _, end = client.get_watermark_offsets(position, cached=True)
            if position.offset >= 0 and end >= 0:
                lags[TopicPartition(position.topic, position.partition)] = max(0, end - position.offset)
    except confluent.KafkaException as error:
        _log.debug("lags are unknown", extra={"reason": error.args[0].str()})
    return lags


def is_fetched(client: "confluent.Consumer", tp: _TopicPartition) -> bool:
    """Return whether a broker answered what there is in a partition, so that what is there is here."""
    try:
        _, end = client.get_watermark_offsets(confluent.TopicPartition(*tp), cached=True)
    except confluent.KafkaException as error:
        _log.debug("cannot find out whether a partition was fetched", extra={"reason": error.args[0].str()})
        return False
    return end >= 0


def is_still_owned(client: "confluent.Consumer", tp: _TopicPartition, offset: int | None) -> bool:
    """Return whether the group still assigns a partition, by a commit that only members may make; seek to its offset.

    Args:
        offset: That of the first event that is not applied; ``None`` where the client's own position is it.

    Raises:
        BrokerError: It is assigned, and cannot be read from there; continuing would skip events.
    """
    if tp not in _owned(client):
        return False  # and a commit would set back what its owner committed: the group asks only who is a member
    [position] = (
        client.position([confluent.TopicPartition(*tp)]) if offset is None else [confluent.TopicPartition(*tp, offset)]
    )
    if position.offset < 0:
        return True  # nothing was read since it was assigned, so there is nowhere to go back to
    if not _is_accepted(client, position):
        return False
    try:
        client.seek(position)
    except confluent.KafkaException as error:
        if tp in _owned(client):
            raise translate(error.args[0]) from error
        return False
    return True


def _is_accepted(client: "confluent.Consumer", position: "confluent.TopicPartition") -> bool:
    """Commit an offset, and return whether the group still accepts the client as a member."""
    try:
        errors = [answer.error for answer in client.commit(offsets=[position], asynchronous=False) or []]
    except confluent.KafkaException as error:
        errors = [error.args[0]]
    lost = [error for error in errors if error is not None and error.name() in _NOT_A_MEMBER]
    if lost:
        _log.info("partition is not assigned to this consumer", extra={"reason": lost[0].str()})
    return not lost


def _owned(client: "confluent.Consumer") -> set[_TopicPartition]:
    return {(owned.topic, owned.partition) for owned in client.assignment()}
