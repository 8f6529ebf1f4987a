"""The group: joining it, what a rebalance changes, partitions that wait, and which errors stop a consumer.

Polling continues while the loop is busy, so that the group does not consider its consumer dead.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cdc_outbox.consumer.fencing import Ownership, TopicPartition
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.limits import Limits
from cdc_outbox.consumer.offsets import Offsets, rewind
from cdc_outbox.consumer.start_offsets import GroupPartitions
from cdc_outbox.consumer.stats import ConsumerStats
from cdc_outbox.consumer.waits import Waits
from cdc_outbox.errors import BrokerError, BrokerUnavailableError, ParkFullError
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka import reading as kafka_reading
from cdc_outbox.kafka.broker_errors import raise_stopping, translate

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 1.0
"""How long after a poll the thread polls, with all partitions paused: a pause throws away what was fetched."""
_POLL_SECONDS = 0.1
_LOOK_SECONDS, _SELDOM_SECONDS = 5.0, 20.0
"""How often the group is described; seldom for a consumer that has partitions."""
_RENEW_SECONDS, _STUCK_SECONDS = 20.0, 60.0
"""How long a client is no member before another one is made, and that one before the consumer ends."""


class BackgroundPoller:
    """A thread that polls for the loop while the loop is busy, with all partitions paused.

    Args:
        limit_seconds: How long it polls for one handler, or for one answer of a server: who is busy for longer hangs,
            and is left to the group's own ``max.poll.interval.ms``, after which others get its partitions.
        handler_at: Returns when the last handler began, in monotonic seconds.

    librdkafka gives partitions away if it is not polled for ``max.poll.interval.ms``. Only one of the two polls at a
    time; callbacks come in the thread that does.
    """

    def __init__(
        self,
        client: "confluent.Consumer",
        *,
        limit_seconds: float = math.inf,
        handler_at: Callable[[], float] = lambda: -math.inf,
    ) -> None:
        self._client = client
        self._limit_seconds, self._handler_at = limit_seconds, handler_at
        self._failure: Exception | None = None
        self._caught: list[confluent.Message] = []
        # The thread that polls holds it, and callbacks, which run during a poll, take it once more.
        self._turn = threading.RLock()
        self._changed = threading.Condition()
        self._polled_at = time.monotonic()
        self._busy_since = 0.0
        self._is_busy = False
        self._may_hang = True
        self._is_ended = False
        self.paused_partitions: set[tuple[str, int]] = set()
        """Partitions that stay paused when the others resume."""
        self._thread = threading.Thread(target=self._run, name="poll again", daemon=True)
        self._thread.start()

    def poll(self, seconds: float, events: int, most_bytes: float = math.inf) -> "list[confluent.Message]":
        """Return up to so many messages: wait for the first, and take the rest as far as they are there.

        Args:
            most_bytes: Of keys and values, after which no more is taken.
        """
        with self._turn:
            try:
                if self._failure is not None:
                    raise self._failure
            finally:
                self._failure = None
            caught, self._caught = self._caught, []
            if caught:
                return caught
            for message in kafka_reading.polled(self._client, seconds, events, most_bytes):
                # Among what was caught, for a rebalance may come before the rest does, and drop it.
                self._caught.append(message)
            self._polled_at = time.monotonic()
            caught, self._caught = self._caught, []
            return caught

    def stay(self) -> None:
        """Poll so that the group knows of us, and take nothing."""
        with self._turn:
            kept: set[tuple[str, int]] = set()
            try:
                self._poll_paused(kept, 0.0)
            finally:
                self._release(kept)

    @contextmanager
    def busy(self, *, may_hang: bool = True) -> Iterator[None]:
        """Have it poll from here on, if this takes long.

        Within this the loop neither polls nor drops what was polled: it would wait for the thread, and that for it.

        Args:
            may_hang: Whether the limit counts.
        """
        with self._changed:
            self._busy_since, self._may_hang, self._is_busy = time.monotonic(), may_hang, True
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait for the end of what the loop is busy with; called by callbacks, in the polling thread."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_busy, seconds)

    def end(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._is_ended = True
            self._is_busy = False
            self._changed.notify_all()
        self._thread.join(_PATIENCE_SECONDS * 2)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_busy or self._is_ended)
                if self._is_ended:
                    return
                # Counted from the last poll: what takes less may follow something else that did.
                if self._changed.wait_for(lambda: not self._is_busy, self._patience()) or self._patience():
                    continue
            with self._turn:
                kept: set[tuple[str, int]] = set()
                try:
                    self._keep(kept)
                except Exception as error:  # noqa: BLE001 - raised by the loop's next poll
                    self._failure = error
                finally:
                    self._release(kept)

    def _patience(self) -> float:
        return max(0.0, self._polled_at + _PATIENCE_SECONDS - time.monotonic())

    def _keep(self, kept: set[tuple[str, int]]) -> None:
        """Poll until the loop is done, unless something takes too long; the loop's own next poll waits for that."""
        began_at, hangs = time.monotonic(), False
        while self._is_busy:
            busy_since = max(began_at, self._busy_since, self._handler_at())
            hung, hangs = hangs, self._may_hang and time.monotonic() - busy_since > self._limit_seconds
            if hangs:
                if not hung:
                    _log.error("a handler or a server takes too long; the partitions are left to other members")
                with self._changed:
                    self._changed.wait_for(lambda: not self._is_busy, _POLL_SECONDS)
            else:
                self._poll_paused(kept, _POLL_SECONDS)

    def _poll_paused(self, kept: set[tuple[str, int]], seconds: float) -> None:
        # Each time, because partitions may have been assigned meanwhile.
        owned = {(owned.topic, owned.partition) for owned in self._client.assignment()}
        self._set(self._client.pause, [confluent.TopicPartition(*tp) for tp in owned - kept - self.paused_partitions])
        kept |= owned
        kept &= owned
        message = self._client.poll(seconds)
        self._polled_at = time.monotonic()
        if message is not None:
            self._caught.append(message)

    def _release(self, kept: set[tuple[str, int]]) -> None:
        """Resume the partitions that were paused and are still assigned."""
        try:
            owned = {(owned.topic, owned.partition) for owned in self._client.assignment()}
        except Exception as error:  # noqa: BLE001 - raised by the loop's next poll
            self._failure = self._failure or error
            return
        self._set(
            self._client.resume, [confluent.TopicPartition(*tp) for tp in (owned & kept) - self.paused_partitions]
        )

    def drop(self, tp: tuple[str, int]) -> list[int]:
        """Forget the messages caught from a partition that is read again, and return their offsets.

        Where the other thread still polls, wait for its end: the messages that it catches last must be dropped, too.
        """
        with self._turn:
            caught, self._caught = self._caught, []
            dropped = []
            for message in caught:
                if (message.topic(), message.partition()) == tp and not message.error():
                    dropped.append(message.offset() or 0)
                else:
                    self._caught.append(message)
            return dropped

    def pause(self, tp: tuple[str, int]) -> None:
        """Pause one partition until :meth:`resume_all`."""
        self.paused_partitions.add(tp)
        self._set(self._client.pause, [confluent.TopicPartition(*tp)])

    def resume(self, tps: Iterable[tuple[str, int]]) -> None:
        """Resume partitions that were assigned again: librdkafka remembers the pause of one lost while paused."""
        assigned = {(owned.topic, owned.partition) for owned in self._client.assignment()} & set(tps)
        self.paused_partitions -= assigned
        self._set(self._client.resume, [confluent.TopicPartition(*tp) for tp in assigned])

    def resume_all(self) -> set[tuple[str, int]]:
        """Resume all partitions, and return those that were paused and are still assigned."""
        paused, self.paused_partitions = self.paused_partitions, set()
        ours = {(owned.topic, owned.partition) for owned in self._client.assignment()} & paused if paused else set()
        self._set(self._client.resume, [confluent.TopicPartition(*tp) for tp in ours])
        return ours

    def _set(
        self, change: "Callable[[list[confluent.TopicPartition]], None]", tps: "list[confluent.TopicPartition]"
    ) -> None:
        try:
            if tps:
                change(tps)
        except confluent.KafkaException as error:
            _log.warning("pausing or resuming partitions failed", extra={"reason": error.args[0].str()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A consumer's part in its group.

    Args:
        client: librdkafka's consumer.
        poller: Polls with it while the loop is busy.
        offsets: The offsets to commit.
        ownership: The partitions that it has.
        partitions: What the brokers know of them.
    """

    client: "confluent.Consumer"
    poller: BackgroundPoller
    offsets: Offsets
    ownership: Ownership
    partitions: GroupPartitions


class MembershipCheck:
    """Whether the group counts a consumer among its members, as the brokers describe it.

    librdkafka may lose the group's coordinator for good although it is connected to every broker: it forgets brokers
    that an answer leaves out, and a broker that its controller considers dead leaves out all.
    """

    def __init__(
        self, member: Membership, stats: ConsumerStats, waits: Waits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._member, self._stats, self._waits, self._clock = member, stats, waits, clock
        self._look_at = clock() + _LOOK_SECONDS

    async def has_ended(self) -> bool:
        """Return whether only another client helps.

        Raises:
            BrokerUnavailableError: This one was made for that reason, and has not been a member for a minute.
        """
        stats, member = self._stats, self._member
        if self._clock() < self._look_at:
            return False
        members = None
        try:
            with member.poller.busy():
                members = await self._waits.call(member.partitions.members)
        except BrokerError as error:  # the brokers do not answer; or the client may not ask, and others may
            if error.retryable:
                stats.retried(error)
        now = self._clock()
        self._look_at = now + (_SELDOM_SECONDS if members is None or member.ownership.held else _LOOK_SECONDS)
        seconds = stats.members_described(members, member.client.memberid(), now)
        if seconds < (_STUCK_SECONDS if stats.is_renewed else _RENEW_SECONDS):
            return False
        text = f"the brokers answer, and this consumer has not been a member of its group for {seconds:.0f} s"
        if stats.is_renewed:
            raise BrokerUnavailableError(text, hint="Start the consumer again, as supervisors do.")
        stats.is_renewed = True
        _log.error("creating a new client", extra={"reason": text})
        return True


def subscribe(member: Membership, topics: Collection[str], limits: Limits, stats: ConsumerStats) -> None:
    """Join the group; the callbacks run during polls."""
    poller, offsets, ownership = member.poller, member.offsets, member.ownership

    def assign(_client: "confluent.Consumer", partitions: "list[confluent.TopicPartition]") -> None:
        stats.rebalanced("assigned")
        tps = [TopicPartition(partition.topic, partition.partition) for partition in partitions]
        for tp in tps:
            poller.drop(tp)  # they come again: a partition is read again from the committed offset
        ownership.assign(tps)

    def revoke(client: "confluent.Consumer", partitions: "list[confluent.TopicPartition]") -> None:
        stats.rebalanced("revoked")
        # The transaction at hand may still end, and its offsets be committed; who comes next waits for us that long.
        poller.wait_until_idle(limits.handler_seconds)
        offsets.revoke(client, partitions)
        forget(client, partitions)

    def lose(client: "confluent.Consumer", partitions: "list[confluent.TopicPartition]") -> None:
        stats.rebalanced("lost")
        forget(client, partitions)

    def forget(client: "confluent.Consumer", partitions: "list[confluent.TopicPartition]") -> None:
        offsets.lose(client, partitions)
        ownership.lose(TopicPartition(partition.topic, partition.partition) for partition in partitions)

    member.client.subscribe(list(topics), on_assign=assign, on_revoke=revoke, on_lost=lose)


def pass_over(record: "confluent.Message", stats: ConsumerStats) -> None:
    """Log an error that is waited out; what waits for it is librdkafka.

    Raises:
        BrokerError: Waiting does not help.
    """
    error = record.error()
    assert error is not None  # noqa: S101 - the caller looked
    raise_stopping(error, has_joined=stats.has_joined)
    topic = {"topic": record.topic()} if record.topic() else {}
    if topic and error.code() == confluent.KafkaError.UNKNOWN_TOPIC_OR_PART:
        _log.warning("topic does not exist: is the aggregate type spelt as in the outbox?", extra=topic)
        return
    stats.retried(translate(error))
    _log.warning("temporary Kafka error", extra={**topic, "reason": error.str()})


def pause(
    client: "confluent.Consumer", poller: BackgroundPoller, stats: ConsumerStats, item: Item, error: ParkFullError
) -> None:
    """Let a partition wait whose next event would park more than may be.

    Raises:
        BrokerError: It was not rewound to that event.
    """
    where = {"topic": item.topic_partition.topic, "partition": item.topic_partition.partition}
    _log.error("partition is paused", extra={**where, "reason": str(error)})
    poller.drop(item.topic_partition)
    poller.pause(item.topic_partition)
    rewind(client, item.message)
    stats.paused(set(map(TopicPartition._make, poller.paused_partitions)))


def resume(poller: BackgroundPoller, stats: ConsumerStats) -> None:
    """Resume all partitions that wait for room."""
    for topic, partition in poller.resume_all():
        _log.warning("partition resumed", extra={"topic": topic, "partition": partition})
    stats.paused(set())
