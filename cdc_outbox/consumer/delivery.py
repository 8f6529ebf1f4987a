"""The inbox transaction: a list of events and their effects, all or nothing."""

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from cdc_outbox.consumer.inbox import Claims, Inbox
from cdc_outbox.consumer.ordering import Judgement, Verdict, aggregate_of, judge, moves_of
from cdc_outbox.drivers import TransactionDriver, TransactionState, translate
from cdc_outbox.errors import (
    CdcOutboxError,
    ConsumerError,
    DatabaseUnavailableError,
    HandlerError,
    SequenceConflictError,
    SequenceGapError,
    TransactionAbortedError,
    TransactionEndedError,
)
from cdc_outbox.event import Event, SequenceMode

Handler = Callable[[Event, Any], object]
"""The user's callback: the event, and the connection whose transaction is open. What it returns is ignored."""

_log = logging.getLogger(__name__)


class Outcome(StrEnum):
    """What became of an event, once its transaction was committed."""

    APPLIED = "applied"
    """Its handler's effects are committed."""
    UNHANDLED = "unhandled"
    """No handler is registered for its type; it was claimed and counted all the same, so that no watermark stalls."""
    DUPLICATE = "duplicate"
    """It had been applied before."""


class Delivery:
    """Apply events in the order of steps that makes their effects happen once.

    Claim the ids by inserting them; judge the sequences; run the handlers, and look at the transaction after each;
    move the watermarks last, each from where it was read, in a statement that proves that the transaction is still
    the one of the claims; commit, and believe the server's answer only.
    """

    def __init__(
        self,
        *,
        inbox: Inbox,
        driver: TransactionDriver,
        handlers: Mapping[str, Handler],
        mode_of: Callable[[str], SequenceMode],
    ) -> None:
        self._inbox = inbox
        self._driver = driver
        self._handlers = handlers
        self._mode_of = mode_of

    def apply(self, events: Sequence[Event], connection: Any) -> list[Outcome]:  # noqa: ANN401
        """Apply events in one transaction of this connection and return their outcomes after the commit.

        Raises:
            SequenceGapError: A predecessor is missing.
            SequenceConflictError: Another event holds this place.
            HandlerError: A handler raised.
            TransactionAbortedError: A handler swallowed an SQL error.
            TransactionEndedError: A handler committed, rolled back or closed the connection.
            WatermarkMovedError, DatabaseError: Trying again may help if ``retryable``.
            ConsumerError: The database refused something else, such as effects that break a deferred constraint.

        Nothing is committed when it raises, but for what a handler committed by itself, and for a connection that
        broke during the commit: then the same events may be applied again, and the claims tell.
        """
        claims = Claims()
        try:
            self._driver.begin(connection)
            claims = self._inbox.claim(connection, [event.id for event in events if event.id is not None])
            outcomes = self._run(events, claims, connection)
            claims = Claims()  # from here on the commit alone decides about them, answered or not
            self._driver.commit(connection)
        except BaseException as error:
            self._driver.rollback(connection)
            if not isinstance(error, Exception):
                raise
            if self._take_back(claims, connection):
                raise TransactionEndedError(f"a handler committed {_names(events)} by itself") from error
            ours = _ours(error) or ConsumerError(f"{_names(events)} could not be applied: {type(error).__name__}")
            if ours is error:
                raise
            raise ours from error
        return outcomes

    def _run(self, events: Sequence[Event], claims: Claims, connection: Any) -> list[Outcome]:  # noqa: ANN401
        numbered = [aggregate_of(event) for event in events if event.sequence is not None]
        watermarks = self._inbox.find_watermarks(connection, numbered)
        judgements = judge(events, unseen=claims.new, watermarks=watermarks, mode_of=self._mode_of)
        outcomes = [self._outcome(judgement, connection) for judgement in judgements]
        self._inbox.advance(connection, claims, moves_of(judgements))
        return outcomes

    def _outcome(self, judgement: Judgement, connection: Any) -> Outcome:  # noqa: ANN401
        event = judgement.event
        match judgement.verdict:
            case Verdict.DUPLICATE:
                return Outcome.DUPLICATE
            case Verdict.GAP:
                expected, actual = judgement.last + 1, event.sequence or 0
                raise SequenceGapError(
                    f"{event} came, and {expected} should have come", expected=expected, actual=actual
                )
            case Verdict.CONFLICT:
                raise SequenceConflictError(
                    f"{event} contradicts what was applied: the aggregate stands at {judgement.last}"
                )
        handler = self._handlers.get(event.type)
        if handler is None:
            return Outcome.UNHANDLED
        self._call(handler, event, connection)
        return Outcome.APPLIED

    def _call(self, handler: Handler, event: Event, connection: Any) -> None:  # noqa: ANN401
        failure: Exception | None = None
        try:
            handler(event, connection)
        except Exception as error:  # noqa: BLE001 - what it means depends on what became of the transaction
            failure = error
        state = self._driver.state(connection)
        if state is TransactionState.ENDED:
            raise TransactionEndedError(f"the handler of {event} ended its transaction") from failure
        if failure is not None:
            ours = _ours(failure)
            if ours is not None and ours.retryable:
                raise ours from failure
            _log.debug("handler failed", exc_info=failure, extra={"event_id": event.id})
            place = f"{type(failure).__name__}{_origin(failure)}"
            raise HandlerError(f"the handler of {event} raised {place}") from failure
        if state is TransactionState.LOST:
            raise DatabaseUnavailableError(f"the connection broke in the handler of {event}")
        if state is TransactionState.ABORTED:
            raise TransactionAbortedError(f"the handler of {event} swallowed an SQL error")

    def _take_back(self, claims: Claims, connection: Any) -> bool:  # noqa: ANN401
        """Undo claims that a handler committed: without a watermark they would pass for events that were applied."""
        if not claims.new or self._driver.state(connection) is TransactionState.LOST:
            return False
        try:
            self._driver.begin(connection)
            found = self._inbox.take_back(connection, claims)
            self._driver.commit(connection)
        except Exception as error:  # noqa: BLE001 - the error that led here is the one to tell
            _log.warning("claims were not looked for", extra={"reason": type(error).__name__})
            self._driver.rollback(connection)
            return False
        return found


def _ours(error: Exception) -> CdcOutboxError | None:
    return error if isinstance(error, CdcOutboxError) else translate(error)


def _names(events: Sequence[Event]) -> str:
    return ", ".join(map(str, events))


def _origin(error: BaseException) -> str:
    """Return where an exception left the user's code, without its message, which may quote the payload."""
    frame = error.__traceback__ and error.__traceback__.tb_next
    if frame is None:
        return ""
    return f" at {Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
