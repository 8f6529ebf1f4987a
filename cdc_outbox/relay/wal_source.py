"""Events from PostgreSQL's write-ahead log, through a replication slot."""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Protocol

from cdc_outbox.databases.drivers.sqlstate import UNDEFINED_OBJECT
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.heartbeats import Heartbeat
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.pgoutput import Relation
from cdc_outbox.databases.publishers import LogIdentity, Publisher
from cdc_outbox.debezium.event_router.column_values import Column
from cdc_outbox.errors import CdcOutboxError, DatabaseError, DatabaseUnavailableError, TransactionConflictError
from cdc_outbox.relay.ownership import (
    claimed_position,
    find_start,
    require_log,
    require_own_heartbeats,
    require_position,
    require_publisher,
    require_slot,
    taken_over,
)
from cdc_outbox.relay.relay_errors import PublicationNotFoundError
from cdc_outbox.relay.second_thread import END_SECONDS, DaemonThreads, SecondThread
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
SILENCE_SECONDS = 30.0
"""How long a connection may be silent before it counts as lost: longer than a failover, shorter than a night."""
ANSWER_SECONDS = 30.0
"""The longest that a healthy server takes to answer a status update: twice the session's ``wal_sender_timeout``. While
it decodes what is in no row of the stream, it looks for them after half of that."""
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
        process: The server's process that reads the slot for it.
    """

    branches: Mapping[int, Lsn]
    process: int

    def receive(self) -> bytes | None:
        """Return the next frame that has arrived, ``None`` if none has."""

    def wait(self, seconds: float) -> None:
        """Wait until something arrives, at most so long."""

    def tell(self, confirmed: int) -> None:
        """Send a status update, which the server answers: everything before this position was delivered."""

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
        warning: What the heartbeats need of the operator; empty if nothing.
    """

    log: LogIdentity
    publisher: Publisher | None
    slot: SlotFacts | None
    publishes: bool
    flushed: Lsn | None = None
    foreign: Heartbeat | None = None
    warning: str = ""


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

    def read_columns(self, relation: Relation) -> Sequence[Column]:
        """Return the outbox's columns."""

    def close(self) -> None:
        """Close what was opened."""

    def renewed(self) -> "ReplicationServer":
        """Return the server as if nothing was opened, for a caller that leaves this object to a thread that hangs."""


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
        silence_seconds: How long a connection may be silent before it counts as lost.
        clock: Monotonic seconds.
        make_executor: Returns what runs the server's methods.

    Attributes:
        lag_bytes: The WAL from the slot's confirmed position to the end of the log, at the last look.
        has_more: Whether the last read ended because its unit was full.
    """

    def __init__(
        self,
        server: ReplicationServer,
        routes: Routes,
        *,
        slot: str,
        publication: str,
        silence_seconds: float = SILENCE_SECONDS,
        clock: Callable[[], float] = monotonic,
        make_executor: Callable[[], Executor] = DaemonThreads,
    ) -> None:
        self._server, self._routes, self._clock = server, routes, clock
        self._thread = SecondThread(make_executor(), clock, silence_seconds)
        self._answer_seconds = max(silence_seconds, ANSWER_SECONDS)
        self._slot, self._publication = slot, publication
        self.lag_bytes: int | None = None
        self.has_more = False
        self._warnings: dict[str, str] = {}
        self._work = ""
        self._was_accepted = False
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
        self._asked_at: float | None = None
        self._unwritten_since: float | None = None
        self._is_late = self._is_unheard = False

    @property
    def warning(self) -> str:
        """What needs the operator's attention; empty if nothing does."""
        return "; ".join(filter(None, self._warnings.values()))

    @property
    def silent(self) -> Mapping[str, float | None]:
        """Since when connections have not answered what they were asked; ``None`` for one that has."""
        # Answers wait unread while the sink is full.
        return {"stream": self._asked_at if self._is_unheard else None, "database": self._thread.waiting_since}

    def read_columns(self, relation: Relation) -> Sequence[Column]:
        """Return the outbox's columns as the server describes them now."""
        return self._thread.call(partial(self._server.read_columns, relation))

    def open(self, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """Start to read.

        Args:
            is_stopping: Returns whether the relay was stopped, so that nothing waits for long any more.

        Raises:
            NotThePublisherError: Another publisher publishes the outbox, or the relay of a copy of this server;
                nothing was confirmed.
            SlotInUseError: Another connection reads the slot.
            RelayError: Server, slot or publication are not what they were; nothing was read.
            DatabaseError: The server cannot be reached, or refuses the role.
        """
        self._reset()
        call, self._thread.is_stopping = self._thread.call, is_stopping
        facts = call(self._server.look)
        publisher, slot = self._accept(facts)
        start = find_start(publisher, facts.log, slot.confirmed or Lsn(0), facts.flushed)
        self._stream = call(partial(self._server.start, start))
        self._told_at = self._confirmed_at = self._looked_at = self._clock()
        facts = call(self._server.look)
        publisher, slot = self._accept(facts)  # only now does nothing else move the slot
        found = max(slot.confirmed or Lsn(0), start or Lsn(0))
        # Not before it reads the slot: relays that wait for it would take the epoch from each other.
        self._epoch = call(partial(self._server.claim, publisher, claimed_position(publisher, facts.log, found)))
        if self._epoch is None:
            raise taken_over(None)
        self._told = found.value
        logger.info("reading slot %s from %s in epoch %d", self._slot, found, self._epoch)

    def _accept(self, facts: StreamFacts) -> tuple[Publisher, SlotFacts]:
        """Return publisher and slot if this relay may read."""
        publisher = require_publisher(facts.publisher, self._slot, epoch=self._epoch)
        if facts.log.timeline is None and self._was_accepted:
            raise DatabaseUnavailableError("the server is a standby")
        require_log(publisher, facts.log)
        self._was_accepted = True
        require_own_heartbeats(facts.foreign)
        slot = require_slot(facts.slot, self._slot)
        self.lag_bytes = slot.unconfirmed_bytes
        self._warnings |= {"slot": _UNRESERVED * (slot.wal_status == "unreserved"), "heartbeat": facts.warning}
        branches = self._stream.branches if self._stream else None
        require_position(publisher, facts.log, slot.name, slot.confirmed or Lsn(0), branches)
        if not facts.publishes:
            raise PublicationNotFoundError(
                f"the publication {self._publication} does not exist, or does not publish every row that is inserted",
                publication=self._publication,
            )
        if self._stream and slot.reader != self._stream.process:
            reader = f"process {slot.reader} reads" if slot.reader else "no process reads"
            raise DatabaseUnavailableError(f"the server has ended the stream: {reader} the slot {slot.name}")
        return publisher, slot

    def read(self, seconds: float) -> Unit[int] | None:
        """Return what was read next, after waiting at most so long; ``None`` if nothing came."""
        self.has_more = False
        if self._is_late:
            self._thread.wait(seconds)
            return None
        unit = self._take()
        if unit is None and seconds > 0:
            self._opened.wait(seconds if self._thread.is_idle else min(seconds, _WORKING_SECONDS))
            unit = self._take()
        if unit is not None:
            self._outstanding.push(unit)
            self._has_events = self._has_events or bool(unit.events)
        return unit

    def _take(self) -> Unit[int] | None:
        transactions, receive = self._transactions, self._opened.receive
        add = transactions.add
        is_silent = True
        for _ in range(_MOST_FRAMES):
            try:
                frame = receive()
            except DatabaseError as error:
                if error.sqlstate == UNDEFINED_OBJECT:
                    raise PublicationNotFoundError(str(error), publication=self._publication) from error
                raise
            if frame is None:
                break
            is_silent = False
            if add(frame):
                self._wants_reply = True
            if transactions.is_full:
                break
        # Any frame is an answer: a server that decodes what others wrote sends no rows for as long as it takes.
        self._is_unheard = is_silent
        if not is_silent:
            self._asked_at = None
        elif self._asked_at is not None and (silent := self._clock() - self._asked_at) >= self._answer_seconds:
            raise DatabaseUnavailableError(f"the replication stream has not been answered for {silent:.0f} s")
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
        if self._thread.is_idle and confirmable > self._told and is_due:
            # The commit of events that are delivered already may come in a unit of its own.
            self._has_events = self._transactions.is_open or len(self._outstanding) > 0
            self._confirmed_at, self._work = now, "confirmation"
            self._unwritten_since = now if self._unwritten_since is None else self._unwritten_since
            self._thread.start(partial(self._confirm, confirmable), self._confirmed, now)
            self._finish(now)
        elif self._thread.is_idle and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at, self._work = now, "look"
            self._thread.start(self._server.look, lambda facts, _: self._accept(facts), now)
            self._finish(now)
        is_unwritten = self._unwritten_since is not None and now - self._unwritten_since >= LATE_SECONDS
        self._is_late = is_unwritten or self._thread.is_late(now, LATE_SECONDS)
        return len(self._outstanding) > 0

    def _finish(self, now: float) -> None:
        """Use what the second thread has found, and wait out what kept it from that."""
        try:
            if self._thread.finish(now):
                self._warnings.pop(self._work, None)
        except TransactionConflictError as error:
            is_known = self._work in self._warnings
            logger.log(logging.DEBUG if is_known else logging.WARNING, "the %s waits: %s", self._work, error)
            self._warnings[self._work] = f"the {self._work} waits: {error}"
            if self._work == "look":
                self._looked_at = now
            else:
                self._confirmed_at, self._has_events = now, True

    def _confirm(self, position: int) -> int:
        """Write the position down; from then on status updates confirm it."""
        if self._epoch is None or not self._server.confirm(self._epoch, Lsn(position)):
            raise taken_over(None)
        return position

    def _confirmed(self, position: int, now: float) -> None:
        self._told, self._unwritten_since = position, None
        self._tell(now)

    def _tell(self, now: float) -> None:
        self._told_at, self._wants_reply = now, False
        self._asked_at = now if self._asked_at is None else self._asked_at
        self._opened.tell(self._told)

    def close(self) -> None:
        """Confirm what is delivered, end the stream and close the connections, without waiting for a silent network."""
        try:
            if self._stream is not None:
                self._confirm_last(self._stream)
        finally:
            stream, self._stream = self._stream, None
            if stream is not None:
                stream.finish()
            if not self._thread.leave(self._server.close):
                self._server = self._server.renewed()

    def _confirm_last(self, stream: ReplicationStream) -> None:
        """Tell the server what was delivered, in spite of what failed behind it."""
        try:
            self._outstanding.settle()
        except Exception as error:
            logger.debug("events were not delivered", exc_info=True)
            error.with_traceback(None)  # its unit keeps it, and the traceback's functions hold the unit
        confirmable = self._outstanding.confirmable or 0
        # What ended the relay's attempt must not be hidden by an error that follows from it.
        with suppress(CdcOutboxError):
            if confirmable > self._told:
                self._told = self._thread.call(partial(self._confirm, confirmable), END_SECONDS)
            if self._epoch is not None:
                stream.tell(self._told)
        with suppress(DatabaseError):
            stream.end(END_SECONDS)

    @property
    def _opened(self) -> ReplicationStream:
        if self._stream is None:
            raise RuntimeError("the source is not open")
        return self._stream
