"""The inbox transaction: a list of events and their effects, all or nothing."""

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from cdc_outbox.consumer.inbox import Inbox
from cdc_outbox.consumer.ordering import Judgement, Verdict, aggregate_of, judge, moves_of
from cdc_outbox.drivers import TransactionDriver, translate
from cdc_outbox.errors import (
    HandlerError,
    SequenceConflictError,
    SequenceGapError,
    TransactionAbortedError,
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

    Claim the ids by inserting them; judge the sequences; run the handlers; move the watermarks last, each from where
    it was read; look at the transaction's state; commit, and believe the server's answer only.
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
            WatermarkMovedError, DatabaseError: Trying again may help if ``retryable``.

        Nothing is committed when it raises, but for a connection that broke during the commit itself: then the
        same events may be applied again, and the claims tell.
        """
        try:
            self._driver.begin(connection)
            outcomes = self._run(events, connection)
            if self._driver.is_aborted(connection):
                raise TransactionAbortedError("a statement failed and its error was swallowed")
            self._driver.commit(connection)
        except BaseException as error:
            self._driver.rollback(connection)
            ours = translate(error)
            if ours is None:
                raise
            raise ours from error
        return outcomes

    def _run(self, events: Sequence[Event], connection: Any) -> list[Outcome]:  # noqa: ANN401
        ids = [event.id for event in events if event.id is not None]
        numbered = [aggregate_of(event) for event in events if event.sequence is not None]
        unseen = self._inbox.claim(connection, ids)
        watermarks = self._inbox.find_watermarks(connection, numbered)
        judgements = judge(events, unseen=unseen, watermarks=watermarks, mode_of=self._mode_of)
        outcomes = [self._handle(judgement, connection) for judgement in judgements]
        self._inbox.advance(connection, moves_of(judgements))
        return outcomes

    def _handle(self, judgement: Judgement, connection: Any) -> Outcome:  # noqa: ANN401
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
        try:
            handler(event, connection)
        except Exception as error:
            ours = translate(error)
            if ours is not None and ours.retryable:
                raise ours from error
            _log.debug("handler failed", exc_info=error, extra={"event_id": event.id})
            raise HandlerError(f"the handler of {event} raised {type(error).__name__}{_origin(error)}") from error
        if self._driver.is_aborted(connection):
            raise TransactionAbortedError(f"the handler of {event} swallowed an SQL error")
        return Outcome.APPLIED


def _origin(error: BaseException) -> str:
    """Return where an exception left the user's code, without its message, which may quote the payload."""
    frame = error.__traceback__ and error.__traceback__.tb_next
    if frame is None:
        return ""
    return f" at {Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
