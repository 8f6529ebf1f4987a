"""Errors of librdkafka: which of them pass by themselves, and what they are to our callers."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from cdc_outbox.errors import BrokerError, BrokerUnavailableError

_Answer = TypeVar("_Answer")

_UNREACHABLE = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - librdkafka's local errors are spelt so
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
    }
)
_RESTARTING = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # a topic made anew has a leader before its broker knows
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)
"""What is answered while a broker starts again, a topic is made, and partitions and groups move."""
PASSING_ERRORS = (
    _UNREACHABLE
    | _RESTARTING
    | {
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # not created yet
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - the next poll joins the group again
    }
)
"""What a consumer reports and gets over by itself."""

WAITED_OUT = PASSING_ERRORS | {
    KafkaError.UNKNOWN,  # what a broker says of an error of its own
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,  # while instances with another assignment strategy are replaced
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID,
    KafkaError.FETCH_SESSION_ID_NOT_FOUND,
    KafkaError.INVALID_FETCH_SESSION_EPOCH,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
}
"""What a running consumer waits out: librdkafka tries again, and the brokers or an operator mend it."""
_REFUSALS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001
    }
)
"""A wrong configuration at the start; later an ACL or a password that is changed, which is waited out."""

_PAUSE_SECONDS = 0.05
"""Between two questions to brokers whose error passes: a new topic has its leader sooner as a rule."""


def answered(ask: Callable[[], _Answer], within_seconds: float) -> _Answer:
    """Return what brokers answer, asked again while an error passes.

    Raises:
        KafkaException: It does not, or not in time.
    """
    deadline = time.monotonic() + within_seconds
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in PASSING_ERRORS or time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def translate(error: KafkaError, servers: str = "") -> BrokerError:
    """Return our error for one of librdkafka's, by its code, with the brokers that were asked if they are named."""
    sentence = f"{error.str()} ({error.name()}){servers and f'; the brokers asked are {servers}'}"
    if error.code() in _UNREACHABLE:  # librdkafka names what it was about to ask
        sentence = f"the brokers {servers and f'{servers} '}do not answer ({error.name()})"
    # Of a partition without a leader librdkafka says that it is unknown.
    passes = error.code() in _UNREACHABLE | _RESTARTING | {KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001
    return (BrokerUnavailableError if passes else BrokerError)(sentence)


def raise_lasting(error: KafkaError) -> None:
    """Raise our error for one that a consumer does not get over by itself."""
    if error.fatal() or error.code() not in PASSING_ERRORS:
        raise translate(error)


def raise_stopping(error: KafkaError, *, has_joined: bool) -> None:
    """Raise our error for one that stops a running consumer; it waits all others out.

    Args:
        has_joined: Whether the group has given it partitions since it started.
    """
    if error.fatal() or error.code() not in (WAITED_OUT | _REFUSALS if has_joined else WAITED_OUT):
        raise translate(error)
