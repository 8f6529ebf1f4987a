"""Every error of this package, in one tree.

::

    CdcOutboxError
    ├── ConfigError (also ValueError)          .field .findings
    ├── EventError (also ValueError)
    ├── OutboxError
    │   ├── NotInTransactionError
    │   ├── StaleSequenceError
    │   ├── DuplicateEventError
    │   └── UnprovenDeliveryError
    ├── RoutingError                           .exception .stage
    ├── DecodeError
    ├── DatabaseError                          .sqlstate
    │   ├── DatabaseUnavailableError           retryable
    │   ├── TransactionConflictError           retryable
    │   ├── TransactionTimeoutError            retryable
    │   ├── DatabaseAccessError
    │   └── TableNotFoundError
    ├── BrokerError
    │   └── BrokerUnavailableError             retryable
    ├── ConnectError                           .status .url
    │   ├── ConnectUnavailableError            retryable
    │   ├── RebalanceError                     retryable
    │   ├── ConnectorNotFoundError
    │   ├── ConnectorInvalidError              .findings
    │   ├── ConnectorFailedError               .trace
    │   ├── DangerousChangeError
    │   └── UnpublishedEventsError
    ├── InboxError
    ├── ConsumerError
    │   ├── MessageError
    │   ├── HandlerError
    │   ├── NoHandlerError                     retryable
    │   ├── TransactionAbortedError
    │   ├── TransactionEndedError
    │   ├── WatermarkMovedError                retryable
    │   ├── PartitionLostError                 retryable .partitions
    │   ├── TopicReplacedError
    │   ├── OffsetOutOfRangeError
    │   ├── ParkFullError
    │   └── OrderingError
    │       ├── SequenceGapError               .expected .actual
    │       └── SequenceConflictError
    ├── RelayError                             see cdc_outbox.relay.relay_errors
    └── StackError

``retryable`` is true if the same call may succeed later; loops retry nothing else. ``hint`` says what the operator can
do. Errors carry data and keep their cause; they never carry payloads or secrets.
"""

from typing import ClassVar

from cdc_outbox.finding import Finding


class CdcOutboxError(Exception):
    """Root of the tree.

    Args:
        message: What happened, in one sentence.
        hint: What the operator can do. Default: the class's own hint.
    """

    retryable: ClassVar[bool] = False
    hint: str = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        if hint is not None:
            self.hint = hint
        if self.hint:
            self.add_note(self.hint)  # a traceback shows it


class ConfigError(CdcOutboxError, ValueError):
    """A spec or a configuration is wrong.

    Args:
        field: The setting, for example ``outbox.table`` or ``Consumer.name``.
        findings: Every defect found, if a whole document was checked.
    """

    def __init__(
        self, message: str, *, field: str = "", findings: tuple[Finding, ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.findings = findings
        self.__notes__ = [*map(str, findings), *getattr(self, "__notes__", ())]


class EventError(CdcOutboxError, ValueError):
    """An event cannot be written as it is; nothing was written."""

    hint = "Correct the event and add it again; the transaction is unchanged."


class OutboxError(CdcOutboxError):
    """The outbox refused to write."""


class NotInTransactionError(OutboxError):
    """The connection is not in a transaction, so the event would not share the fate of the business data."""

    hint = "Open a transaction first, and add the event inside it."


class StaleSequenceError(OutboxError):
    """The caller's own sequence is not above the aggregate's last one; the event was not written.

    Another transaction was first, or the event is added again. Roll back: this call may have written other events.
    """

    hint = "Read the aggregate again and repeat the decision, or skip what is already written."


class DuplicateEventError(OutboxError):
    """The outbox holds an event with this id already; PostgreSQL has aborted the transaction."""

    hint = "If it is the same event, it is already written: roll back and skip it. If not, leave Event.id unset."


class UnprovenDeliveryError(OutboxError):
    """Nothing proves which events were delivered, so none may be deleted."""

    hint = "In the spec, name the slot that the connector reads; `cdc-outbox deploy-connector` creates it."


class RoutingError(CdcOutboxError):
    """The EventRouter or a converter would throw, and the connector's task would fail.

    Args:
        exception: The Java exception's class, without its package.
        stage: ``configure`` before the first row, ``transform`` in the router, ``convert`` after it.
    """

    def __init__(self, message: str, *, exception: str, stage: str = "transform", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exception = exception
        self.stage = stage


class DecodeError(CdcOutboxError):
    """PostgreSQL's log output cannot be decoded; nothing of it was used."""

    hint = "Check whether a proxy changes the server's messages, or whether the server is newer than this package."


class DatabaseError(CdcOutboxError):
    """The database returned an error.

    Args:
        sqlstate: PostgreSQL's five-character code, or its equivalent for other databases; empty if there is none.
    """

    def __init__(self, message: str, *, sqlstate: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.sqlstate = sqlstate


class DatabaseUnavailableError(DatabaseError):
    """The database cannot be reached, went away, or takes no writes at the moment."""

    retryable = True
    hint = "Check that the server runs, has free disk space and is not a standby, and that host and port are right."


class TransactionConflictError(DatabaseError):
    """Concurrent transactions conflicted (40001, 40P01, 55P03); the whole transaction may be tried again."""

    retryable = True
    hint = "Roll back and run the whole transaction again, or the command."


class TransactionTimeoutError(DatabaseError):
    """PostgreSQL ended a transaction, and its connection, that idled or took too long (25P03, 25P04).

    Not every driver reports it; the others report a lost connection.
    """

    retryable = True
    hint = "Wait for other systems, such as HTTP services, outside the transaction; or raise the time limit."


class DatabaseAccessError(DatabaseError):
    """The role may not log in, or lacks a privilege."""

    hint = "Check user and password, and that the role has the privileges it needs."


class TableNotFoundError(DatabaseError):
    """A table, column or schema that the statement names does not exist."""

    hint = "Create the tables with `cdc-outbox init` (a consumer's with `init --inbox`), or correct the table's name."


class BrokerError(CdcOutboxError):
    """Kafka returned an error."""

    hint = "Check the broker's log, and that the client's user has the privileges it needs."


class BrokerUnavailableError(BrokerError):
    """No broker answers."""

    retryable = True
    hint = "Check that the broker runs and that the bootstrap servers are right."


class ConnectError(CdcOutboxError):
    """Kafka Connect returned an error.

    Args:
        status: The HTTP status; ``None`` if there was no answer.
        url: The requested URL, without credentials.
    """

    def __init__(self, message: str, *, status: int | None = None, url: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.url = url


class ConnectUnavailableError(ConnectError):
    """No Connect worker answers, or it is still starting."""

    retryable = True
    hint = "Check that the Connect worker runs and that its URL is right."


class RebalanceError(ConnectError):
    """The Connect cluster is rebalancing (HTTP 409) and did not finish in time."""

    retryable = True
    hint = "Wait for the rebalance to end and run the command again."


class ConnectorNotFoundError(ConnectError):
    """No connector has this name."""

    hint = "Correct the connector's name; `cdc-outbox status` lists the connectors of a cluster."


class ConnectorInvalidError(ConnectError):
    """A connector was refused before anything was changed.

    Args:
        findings: Every defect found.
    """

    def __init__(self, message: str, *, findings: tuple[Finding, ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.findings = findings


class ConnectorFailedError(ConnectError):
    """A connector or one of its tasks failed, or did not start in time.

    Args:
        trace: The failed task's stack trace as Connect reports it; empty if there is none.
    """

    hint = "Run `cdc-outbox doctor SPEC`, which shows the cause and the remedy."

    def __init__(self, message: str, *, trace: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.trace = trace


class DangerousChangeError(ConnectError):
    """The change to a running connector would lose, repeat or reorder events; nothing was changed."""

    hint = (
        "If the change is intended, stop the writers until consumers have read everything, then run again with "
        "--replace. `cdc-outbox plan` shows every change with its impact."
    )


class UnpublishedEventsError(ConnectError):
    """Events exist that this deployment would never publish; nothing was changed."""


class InboxError(CdcOutboxError):
    """An operator's action on an inbox is not possible, or its consumer does not exist; nothing was changed."""


class ConsumerError(CdcOutboxError):
    """The consumer stopped at a message; its offset was not committed."""


class MessageError(ConsumerError):
    """A message does not keep the wire contract: a missing id, a malformed header, a payload that is not JSON."""

    hint = (
        "Compare the message's headers with the contract: HeaderNames sets their names, and "
        "WireContract(foreign=ForeignOutbox(…)) reads outboxes of other tools."
    )


class HandlerError(ConsumerError):
    """A handler raised; its transaction was rolled back. The handler's own error is the cause."""


class NoHandlerError(ConsumerError):
    """No event in the topics has a handler in this consumer; none was consumed."""

    retryable = True
    hint = "Correct the event type for which the handler is registered."


class TransactionAbortedError(ConsumerError):
    """A handler swallowed an SQL error, so its transaction could only be rolled back."""

    hint = "Let SQL errors leave the handler, or run a statement that may fail inside a savepoint."


class TransactionEndedError(ConsumerError):
    """A handler ended its transaction; the event's claim was removed, so that the event comes again."""

    hint = "A handler must not end its transaction; its own commits stay, and are repeated with the event."


class WatermarkMovedError(ConsumerError):
    """Another transaction changed the aggregate's watermark meanwhile; this one was rolled back."""

    retryable = True
    hint = "Roll back and apply the event again."


class PartitionLostError(ConsumerError):
    """Another consumer got the partition meanwhile; the transaction was rolled back.

    Args:
        partitions: The lost topic-partitions.
    """

    retryable = True

    def __init__(self, message: str, *, partitions: tuple[tuple[str, int], ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.partitions = partitions


class TopicReplacedError(ConsumerError):
    """A topic is not the one whose effects the database has: it was created again, or belongs to another cluster."""

    hint = (
        "Check the brokers' address. If the change is intended, run `cdc-outbox reset SPEC --consumer NAME "
        "--offsets-only`: the consumer then reads the topic from its beginning and skips what it has applied."
    )


class OffsetOutOfRangeError(ConsumerError):
    """A topic does not hold the offset from which the consumer continues."""

    hint = (
        "Messages are lost. Publish them again; or accept the loss with `cdc-outbox reset SPEC --consumer NAME "
        "--offsets-only`: the consumer then reads what the topic holds and skips what it has applied. `cdc-outbox "
        "verify` names missing events."
    )


class ParkFullError(ConsumerError):
    """The parking limit is reached; the partition is paused."""

    hint = "See `cdc-outbox parked list`, fix the cause, and retry or skip the events: --all takes those of a --reason."


class OrderingError(ConsumerError):
    """An event does not follow the last one of its aggregate."""


class SequenceGapError(OrderingError):
    """An event came before its predecessor.

    Args:
        expected: The sequence that must be applied first.
        actual: The sequence that came.
    """

    hint = "An event is missing: look for it in the outbox table and in the topic before you continue."

    def __init__(self, message: str, *, expected: int, actual: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.actual = actual


class SequenceConflictError(OrderingError):
    """An event contradicts what was applied: an old sequence under a new id, or a known id under a new sequence."""

    hint = "Only one outbox may number an aggregate; after a restore, run `cdc-outbox init --new-incarnation`."


class StackError(CdcOutboxError):
    """The local stack cannot start, or a part of it failed."""

    hint = "Read the logs in the stack's folder; `cdc-outbox stack up` starts parts that are down."
