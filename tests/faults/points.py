"""The points of a consumer's life at which something may happen to it, and how a process stops there.

The product knows nothing of them: what is named here is wrapped from outside.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import confluent_kafka

from cdc_outbox.consumer.claims import SqlInbox
from cdc_outbox.consumer.delivery import Delivery, _Work
from cdc_outbox.consumer.group import BackgroundPoller
from cdc_outbox.consumer.offsets import Offsets
from cdc_outbox.consumer.sql_parked_events import SqlPark
from cdc_outbox.kafka import confluent
from tests.faults.wrapping import call_after, call_before

Reach = Callable[[], None]


class Point(StrEnum):
    AFTER_POLL = "after-poll"
    AFTER_CLAIM = "after-claim"
    IN_HANDLER = "in-handler"
    BEFORE_COMMIT = "before-commit"
    COMMIT_NOT_DONE = "commit-not-done"
    """The server does not get it, as far as the fault keeps it from there."""
    COMMIT_DONE = "commit-done"
    """The server has done it, and its answer is under way."""
    AFTER_COMMIT = "after-commit"
    OFFSET_COMMIT = "offset-commit"
    """It is sent, and not answered."""
    ON_REVOKE = "on-revoke"
    PARKING = "parking"
    AFTER_PARKING = "after-parking"


def stop_at(point: Point, reach: Reach) -> None:
    """Have this process call something whenever it is at a point; in the handler it does so by itself."""
    match point:
        case Point.AFTER_POLL:
            call_after(BackgroundPoller, "poll", reach, lambda polled, *_: bool(polled))
        case Point.AFTER_CLAIM:
            call_after(SqlInbox, "claim", reach, lambda claims, *_: bool(claims.new))
            call_after(SqlInbox, "claim_next", reach, lambda claimed, *_: claimed is not None)
        case Point.BEFORE_COMMIT | Point.COMMIT_NOT_DONE | Point.COMMIT_DONE:
            # What goes to the server next is the COMMIT.
            call_after(_Work, "run", reach)
        case Point.AFTER_COMMIT:
            call_after(Delivery, "apply", reach)
        case Point.OFFSET_COMMIT:
            _after_sent_offsets(reach)
        case Point.ON_REVOKE:
            call_before(Offsets, "revoke", reach)
        case Point.PARKING:
            call_after(SqlPark, "add", reach)
        case Point.AFTER_PARKING:
            call_after(Delivery, "apply", reach, lambda delivered, *_: bool(delivered.parked))
        case Point.IN_HANDLER:
            pass


def _after_sent_offsets(reach: Reach) -> None:
    class Client(confluent_kafka.Consumer):
        def commit(self, *arguments: Any, **options: Any) -> Any:
            answer = super().commit(*arguments, **options)
            if options.get("asynchronous"):
                reach()
            return answer

    vars(confluent)["Consumer"] = Client
