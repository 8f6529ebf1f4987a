"""Events from PostgreSQL's write-ahead log, through a replication slot."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Protocol

from cdc_outbox.databases.drivers.sqlstate import UNDEFINED_OBJECT
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.heartbeats import Heartbeat
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.publishers import LogIdentity, Publisher
from cdc_outbox.errors import DatabaseError
from cdc_outbox.relay.ownership import (
    claimed_position,
    find_start,
    require_log,
    require_own_heartbeats,
    require_position,
    require_publisher,
    taken_over,
)
from cdc_outbox.relay.relay_errors import (
    NotThePublisherError,
    PublicationNotFoundError,
    SlotLostError,
    SlotNotFoundError,
)
from cdc_outbox.relay.transactions import Routes, Transactions
from cdc_outbox.relay.units import Outstanding, Unit

TELL_SECONDS = 1.0
"""Between two confirmations of delivered events: a crash repeats what was delivered since the last one."""
IDLE_SECONDS = 60.0
"""Between two that confirm the log of others: the row that is written before each is itself log, for ever."""
QUIET_SECONDS = 5.0
"""Between two status updates, also with nothing to confirm: after three times this the server gives the relay up."""
LOOK_SECONDS = 5.0
"""Between two looks at publisher, slot and publication, of whose loss the stream does not always tell."""
END_SECONDS = 5.0
"""How long the end of a stream may take."""
_WORKING_SECONDS = 0.01
"""The longest wait for frames while the second thread works: its result is used between two reads."""
LATE_SECONDS = 2.0
"""How long the second thread may take before nothing more is read: a kill repeats what is not written down."""
_MOST_FRAMES = 4_096
"""Frames that are read before anything else gets its turn, whether or not they hold events."""
_UNRESERVED = (
    "the server removes WAL that the slot needs at its next checkpoint, unless the relay has read to the end of the "
    "log and for 15 s more"
)

logger = logging.getLogger(__name__)


class ReplicationStream(Protocol):
    """A connection that reads a slot; errors are those of :mod:`cdc_outbox.databases.replication`.

    Attributes:
        branches: Where each of the server's earlier timelines ended.
    """

    branches: Mapping[int, Lsn]

    def receive(self) -> bytes | None:
        """Return the next frame that has arrived, ``None`` if none has."""

    def wait(self, seconds: float) -> None:
        """Wait until something arrives, at most so long."""

    def tell(self, confirmed: int) -> None:
        """Send a status update: everything before this position was delivered."""

    def end(self, seconds: float) -> None:
        """End the stream so that the server reads the last status update, waiting at most so long."""

    def finish(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """What an ordinary connection tells about server, publisher, slot and publication, and Kafka about heartbeats.

    Args:
        publisher: ``None`` if none was ever written.
        slot: ``None`` if it does not exist.
        publishes: Whether the publication exists and publishes every row that is inserted into the outbox.
        flushed: Up to where the log is on the server's disk; ``None`` on a standby.
        foreign: The newest heartbeat in Kafka, if this database did not write it.
    """

    log: LogIdentity
    publisher: Publisher | None
    slot: SlotFacts | None
    publishes: bool
    flushed: Lsn | None = None
    foreign: Heartbeat | None = None


class ReplicationServer(Protocol):
    """The server, as the source reaches it."""

    def look(self) -> StreamFacts:
        """Return server, publisher, slot and publication as they are now."""

    def claim(self, publisher: Publisher, confirmed: Lsn) -> int | None:
        """Write that this relay publishes, and return its epoch; ``None`` if another one did since the last look."""

    def confirm(self, epoch: int, position: Lsn) -> bool:
        """Write what is about to be confirmed, and return whether the epoch is still the publisher's."""

    def start(self, position: Lsn | None) -> ReplicationStream:
        """Connect to the server of the last look and read the slot from a position, or from where it was confirmed."""

    def close(self) -> None:
        """Close what :meth:`look` opened."""


def _one_thread() -> Executor:
    return ThreadPoolExecutor(1, "cdc-outbox relay's server")


class WalSource:
    """Reads a slot, and confirms what is delivered.

    Reading starts where the slot was confirmed, and no event is compared with a position. Who may read it is written
    beside the outbox, and so is each position before the slot confirms it: a slot that is further was moved by others,
    and where a crash of the server put it back, reading starts at the row's position. A second thread writes and looks:
    events would wait for a commit.

    Args:
        server: Where the slot is.
        slot: Its name.
        publication: Its name.
        routes: The messages of each table's rows.
        clock: Monotonic seconds.
        make_executor: Returns what runs the server's methods, one after the other.

    Attributes:
        lag_bytes: The WAL from the slot's confirmed position to the end of the log, at the last look.
        warning: What the last look found that needs the operator's attention.
        has_more: Whether the last read ended because its unit was full.
    """

    def __init__(
        self,
        server: ReplicationServer,
        routes: Routes,
        *,
        slot: str,
        publication: str,
        clock: Callable[[], float] = monotonic,
        make_executor: Callable[[], Executor] = _one_thread,
    ) -> None:
        self._server, self._routes, self._clock = server, routes, clock
        self._make_executor = make_executor
        self._slot, self._publication = slot, publication
        self.lag_bytes: int | None = None
        self.warning = ""
        self.has_more = False
        self._stream: ReplicationStream | None = None
        self._told = 0
        self._told_at = self._looked_at = self._confirmed_at = 0.0
        self._reset()

    def _reset(self) -> None:
        """Forget what was read: the server sends it again, and reports of its units confirm nothing any more."""
        self._transactions = Transactions(self._routes)
        self._outstanding: Outstanding[int] = Outstanding()
        self._wants_reply = self._has_events = False
        self._epoch: int | None = None
        self._executor = self._make_executor()
        self._running: tuple[Future[Any], Callable[[Any, float], object]] | None = None
        self._started_at = 0.0
        self._is_late = False

    def open(self) -> None:
        """Start to read.

        Raises:
            NotThePublisherError: Another publisher publishes the outbox, or the relay of a copy of this server;
                nothing was confirmed.
            SlotInUseError: Another connection reads the slot.
            RelayError: Server, slot or publication are not what they were; nothing was read.
            DatabaseError: The server cannot be reached, or refuses the role.
        """
        self._reset()
        facts = self._server.look()
        publisher, slot = self._accept(facts)
        start = find_start(publisher, facts.log, slot.confirmed or Lsn(0), facts.flushed)
        self._stream = self._server.start(start)
        self._told_at = self._confirmed_at = self._looked_at = self._clock()
        facts = self._server.look()
        publisher, slot = self._accept(facts)  # only now does nothing else move the slot
        found = max(slot.confirmed or Lsn(0), start or Lsn(0))
        # Not before it reads the slot: relays that wait for it would take the epoch from each other.
        self._epoch = self._server.claim(publisher, claimed_position(publisher, facts.log, found))
        if self._epoch is None:
            raise taken_over(None)
        self._told = found.value
        logger.info("reading slot %s from %s in epoch %d", self._slot, found, self._epoch)

    def _accept(self, facts: StreamFacts) -> tuple[Publisher, SlotFacts]:
        """Return publisher and slot if this relay may read."""
        publisher = require_publisher(facts.publisher, self._slot, epoch=self._epoch)
        require_log(publisher, facts.log)
        require_own_heartbeats(facts.foreign)
        slot = self._checked(facts.slot)
        self.lag_bytes = slot.unconfirmed_bytes
        self.warning = _UNRESERVED if slot.wal_status == "unreserved" else ""
        branches = self._stream.branches if self._stream else None
        require_position(publisher, facts.log, slot.name, slot.confirmed or Lsn(0), branches)
        if not facts.publishes:
            raise PublicationNotFoundError(
                f"the publication {self._publication} does not exist, or does not publish every row that is inserted",
                publication=self._publication,
            )
        return publisher, slot

    def _checked(self, slot: SlotFacts | None) -> SlotFacts:
        name = self._slot
        if slot is None:
            raise SlotNotFoundError(f"the slot {name} does not exist", slot=name)
        if slot.wal_status == "lost" or slot.invalidation:
            reason = slot.invalidation or "the server removed WAL that it needs"
            raise SlotLostError(f"the slot {name} is lost: {reason}", slot=name)
        return slot

    def read(self, seconds: float) -> Unit[int] | None:
        """Return what was read next, after waiting at most so long; ``None`` if nothing came."""
        self.has_more = False
        if self._is_late and self._running is not None:
            wait([self._running[0]], seconds)
            return None
        unit = self._take()
        if unit is None and seconds > 0:
            self._opened.wait(min(seconds, _WORKING_SECONDS) if self._running else seconds)
            unit = self._take()
        if unit is not None:
            self._outstanding.push(unit)
            self._has_events = self._has_events or bool(unit.events)
        return unit

    def _take(self) -> Unit[int] | None:
        transactions, receive = self._transactions, self._opened.receive
        add = transactions.add
        for _ in range(_MOST_FRAMES):
            try:
                frame = receive()
            except DatabaseError as error:
                if error.sqlstate == UNDEFINED_OBJECT:
                    raise PublicationNotFoundError(str(error), publication=self._publication) from error
                raise
            if frame is None:
                break
            if add(frame):
                self._wants_reply = True
            if transactions.is_full:
                break
        self.has_more = transactions.is_full
        return transactions.take()

    def settle(self, now: float) -> bool:
        """Confirm what is delivered, tell the server that the relay lives, and look after slot and publication.

        Returns:
            Whether anything that was read is not delivered.

        Raises:
            CdcOutboxError: What a unit failed with, or what the look found.
        """
        confirmable = self._outstanding.settle() or 0
        self._finish(now)
        pause = TELL_SECONDS if self._has_events else IDLE_SECONDS
        is_due = self._wants_reply or now - self._confirmed_at >= pause
        if self._wants_reply or now - self._told_at >= QUIET_SECONDS:
            self._tell(now)
        if self._running is None and confirmable > self._told and is_due:
            # The commit of events that are delivered already may come in a unit of its own.
            self._has_events = self._transactions.is_open or len(self._outstanding) > 0
            self._confirmed_at = now
            self._start(partial(self._confirm, confirmable), lambda _, then: self._tell(then), now)
        elif self._running is None and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._start(self._server.look, lambda facts, _: self._accept(facts), now)
        self._is_late = self._running is not None and now - self._started_at >= LATE_SECONDS
        return len(self._outstanding) > 0

    def _start(self, work: Callable[[], Any], then: Callable[[Any, float], object], now: float) -> None:
        """Have the second thread work, and use its result, or its error, in a later round."""
        self._running, self._started_at = (self._executor.submit(work), then), now
        self._finish(now)

    def _finish(self, now: float) -> None:
        if self._running is not None and self._running[0].done():
            (work, then), self._running = self._running, None
            then(work.result(), now)

    def _confirm(self, position: int) -> None:
        """Write the position down; from then on status updates confirm it."""
        if self._epoch is None or not self._server.confirm(self._epoch, Lsn(position)):
            raise taken_over(None)
        self._told = position

    def _tell(self, now: float) -> None:
        self._told_at, self._wants_reply = now, False
        self._opened.tell(self._told)

    def close(self) -> None:
        """Confirm what is delivered, end the stream and close the connections."""
        stream, self._stream = self._stream, None
        self._executor.shutdown()
        with closing(self._server):
            if stream is None:
                return
            try:
                self._confirm_last(stream)
            finally:
                stream.finish()

    def _confirm_last(self, stream: ReplicationStream) -> None:
        """Tell the server what was delivered, in spite of what failed behind it."""
        try:
            self._outstanding.settle()
        except Exception as error:
            logger.debug("events were not delivered", exc_info=True)
            error.with_traceback(None)  # its unit keeps it, and the traceback's functions hold the unit
        confirmable = self._outstanding.confirmable or 0
        # What ended the relay's attempt must not be hidden by an error that follows from it.
        with suppress(DatabaseError, NotThePublisherError):
            if confirmable > self._told:
                self._confirm(confirmable)
            if self._epoch is not None:
                stream.tell(self._told)
        with suppress(DatabaseError):
            stream.end(END_SECONDS)

    @property
    def _opened(self) -> ReplicationStream:
        if self._stream is None:
            raise RuntimeError("the source is not open")
        return self._stream
