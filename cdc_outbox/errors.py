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
    └── StackError

``retryable`` says whether doing the same again can help; loops retry nothing else. ``hint`` is one sentence for
the operator. Errors carry data and keep their cause; they never carry payloads or secrets.
"""

from typing import ClassVar

from cdc_outbox.finding import Finding


class CdcOutboxError(Exception):
    """Root of the tree.

    Args:
        message: What happened, in one sentence.
        hint: What the operator can do, where the class's own hint is too general.
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
        field: Where, for example ``outbox.table`` or ``Consumer.name``.
        findings: Every defect found, where a whole document was checked.
    """

    def __init__(
        self, message: str, *, field: str = "", findings: tuple[Finding, ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.findings = findings


class EventError(CdcOutboxError, ValueError):
    """An event cannot be written as it is; nothing was written."""

    hint = "Correct the event and add it again; the transaction is as it was."


class OutboxError(CdcOutboxError):
    """The outbox refused to write."""


class NotInTransactionError(OutboxError):
    """The connection is not in a transaction, so the event would not share the fate of the business data."""

    hint = "Open a transaction first, and add the event inside it."


class StaleSequenceError(OutboxError):
    """The caller's own sequence is not above the aggregate's last one; the event was not written.

    Another transaction was first, or the same event is added again. Events added by the same call may have been
    written, so roll back.
    """

    hint = "Read the aggregate again and decide anew, or skip what is written already."


class DuplicateEventError(OutboxError):
    """The outbox holds an event with this id already; PostgreSQL has aborted the transaction."""

    hint = "If it is the same event, it is written already: roll back and skip it. If not, leave Event.id out."


class UnprovenDeliveryError(OutboxError):
    """Nothing proves which events were delivered, so none may be deleted."""

    hint = "Name in the spec the slot that the connector reads; `cdc-outbox deploy-connector` creates it."


class RoutingError(CdcOutboxError):
    """The EventRouter or a converter would throw, and the connector's task would fail.

    Args:
        exception: The Java exception's class, without its package.
        stage: ``configure`` before the first row, ``transform`` in the router, ``convert`` behind it.
    """

    def __init__(self, message: str, *, exception: str, stage: str = "transform", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.exception = exception
        self.stage = stage


class DecodeError(CdcOutboxError):
    """What PostgreSQL's log output says cannot be read; nothing of it was used."""

    hint = "Does something between here and the server change what it sends, or is the server newer than this package?"


class DatabaseError(CdcOutboxError):
    """The database refused.

    Args:
        sqlstate: PostgreSQL's five-character code, of other databases the one that fits; empty where there is none.
    """

    def __init__(self, message: str, *, sqlstate: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.sqlstate = sqlstate


class DatabaseUnavailableError(DatabaseError):
    """The database cannot be reached, went away, or takes no writes at the moment."""

    retryable = True
    hint = "Check that the server runs, has free disk space and is not a standby, and that host and port are right."


class TransactionConflictError(DatabaseError):
    """Transactions got in each other's way (40001, 40P01, 55P03); the whole transaction may be tried again."""

    retryable = True
    hint = "Roll back and run the whole transaction again, or the command."


class TransactionTimeoutError(DatabaseError):
    """PostgreSQL ended a transaction, and its connection, that idled or took too long (25P03, 25P04).

    Not every driver says so; elsewhere it is a lost connection.
    """

    retryable = True
    hint = "Wait for other systems, such as HTTP services, outside of the transaction; or allow it more time."


class DatabaseAccessError(DatabaseError):
    """The role may not log in or may not do this."""

    hint = "Check user and password, and that the role has the privileges it needs."


class TableNotFoundError(DatabaseError):
    """A table, column or schema that the statement names does not exist."""

    hint = "Create the tables with `cdc-outbox init`, a consumer's with `init --inbox`, or correct the table's name."


class BrokerError(CdcOutboxError):
    """Kafka refused."""

    hint = "Check the broker's log, and that the client's user has the privileges it needs."


class BrokerUnavailableError(BrokerError):
    """No broker answers."""

    retryable = True
    hint = "Check that the broker runs and that the bootstrap servers are right."


class ConnectError(CdcOutboxError):
    """Kafka Connect refused.

    Args:
        status: The HTTP status, ``None`` where there was no answer.
        url: What was asked, without credentials.
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
    """No connector of that name exists."""

    hint = "Correct the connector's name; `cdc-outbox status` lists the connectors of a cluster."


class ConnectorInvalidError(ConnectError):
    """A connector was refused before anything was changed.

    Args:
        findings: What is wrong, one by one.
    """

    def __init__(self, message: str, *, findings: tuple[Finding, ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.findings = findings


class ConnectorFailedError(ConnectError):
    """A connector or one of its tasks failed, or did not come up in time.

    Args:
        trace: The failed task's stack trace as Connect reports it, empty where there is none.
    """

    hint = "Run `cdc-outbox doctor SPEC`: it names the cause and the remedy."

    def __init__(self, message: str, *, trace: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.trace = trace


class DangerousChangeError(ConnectError):
    """The running connector would be changed so that events get lost, repeated or disordered; nothing was changed."""

    hint = (
        "If that is what you want, let the writers rest until consumers have read everything, and run again with "
        "--replace. `cdc-outbox plan` shows every change with what it does."
    )


class UnpublishedEventsError(ConnectError):
    """Events exist that this deployment would never publish; nothing was changed."""


class InboxError(CdcOutboxError):
    """What an operator decided about an inbox cannot be; nothing was changed."""


class ConsumerError(CdcOutboxError):
    """The consumer stopped at a message; its offset was not committed."""


class MessageError(ConsumerError):
    """A message does not keep the wire contract: a missing id, a malformed header, a payload that is not JSON."""

    hint = (
        "Compare the message's headers with the contract: HeaderNames says what they are called, and "
        "WireContract(foreign=ForeignOutbox(…)) reads what another tool's outbox writes."
    )


class HandlerError(ConsumerError):
    """A handler raised; its transaction was rolled back. The handler's own error is the cause."""


class NoHandlerError(ConsumerError):
    """The topics hold no event that the consumer has a handler for; none was used up."""

    retryable = True
    hint = "Correct the event type that the handler is registered for."


class TransactionAbortedError(ConsumerError):
    """A handler swallowed an SQL error, so its transaction could only be rolled back."""

    hint = "Let SQL errors leave the handler, or put the statement that may fail into a savepoint."


class TransactionEndedError(ConsumerError):
    """A handler ended the transaction that it was given; the event's claim was taken back, so that it comes again."""

    hint = "A handler must not end its transaction; what it committed by itself stays, and comes again with the event."


class WatermarkMovedError(ConsumerError):
    """Another consumer advanced the aggregate meanwhile; the transaction was rolled back."""

    retryable = True
    hint = "Roll back and apply the event again."


class PartitionLostError(ConsumerError):
    """Another consumer was given the partition meanwhile; the transaction was rolled back.

    Args:
        partitions: Topic and partition of each that was lost.
    """

    retryable = True

    def __init__(self, message: str, *, partitions: tuple[tuple[str, int], ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.partitions = partitions


class TopicReplacedError(ConsumerError):
    """A topic is not the one that the database has effects of: it was created anew, or is another cluster's."""

    hint = (
        "Check the brokers' address. If the change is meant, `cdc-outbox reset SPEC --consumer NAME --offsets-only` "
        "has the consumer read the topic from its beginning; it skips what it has applied."
    )


class OffsetOutOfRangeError(ConsumerError):
    """A topic does not hold the offset that the consumer's database goes on with."""

    hint = (
        "Messages are lost. Publish them again, or accept that: `cdc-outbox reset SPEC --consumer NAME --offsets-only` "
        "has the consumer read what the topic holds and skip what it has applied. `cdc-outbox verify` names what is "
        "missing."
    )


class ParkFullError(ConsumerError):
    """So many events are parked that no more may be; the partition waits."""

    hint = "See `cdc-outbox parked list`, fix the cause, and retry or skip what is there."


class OrderingError(ConsumerError):
    """An event does not follow the last one of its aggregate."""


class SequenceGapError(OrderingError):
    """An event came before its predecessor.

    Args:
        expected: The sequence that must be applied first.
        actual: The sequence that came.
    """

    hint = "An event is missing: look for it in the outbox table and in the topic before you go on."

    def __init__(self, message: str, *, expected: int, actual: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.actual = actual


class SequenceConflictError(OrderingError):
    """An event contradicts what was applied: an old sequence under a new id, or a known id under a new sequence."""

    hint = "Number an aggregate in one outbox only; after a restore, run `cdc-outbox init --new-incarnation`."


class StackError(CdcOutboxError):
    """The local stack cannot start, or a part of it failed."""

    hint = "Read the logs in the stack's folder; `cdc-outbox stack up` starts what is down."
