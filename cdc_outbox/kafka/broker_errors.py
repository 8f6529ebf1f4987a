"""Errors of librdkafka: which of them pass by themselves, and what they are to our callers."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

from cdc_outbox.errors import BrokerError, BrokerUnavailableError
from cdc_outbox.kafka import confluent

_Key = TypeVar("_Key")
_Answer = TypeVar("_Answer")

# By their names, which the client gives with each error: its classes are imported when a client is made.
_UNREACHABLE = frozenset(
    {
        "_ALL_BROKERS_DOWN",
        "_RESOLVE",
        "_TIMED_OUT",
        "_TRANSPORT",
    }
)
_RESTARTING = frozenset(
    {
        "LEADER_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",  # a recreated topic has a leader before its broker knows
        "NOT_LEADER_FOR_PARTITION",
        "BROKER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "REQUEST_TIMED_OUT",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "_WAIT_COORD",
    }
)
"""Answers while a broker restarts, a topic is created, and partitions and groups move."""
PASSING_ERRORS = (
    _UNREACHABLE
    | _RESTARTING
    | {
        "UNKNOWN_TOPIC_OR_PART",  # not created yet
        "_MAX_POLL_EXCEEDED",  # the next poll joins the group again
    }
)
"""What a consumer reports and gets over by itself."""

WAITED_OUT = PASSING_ERRORS | {
    "UNKNOWN",  # what a broker says of an error of its own
    "KAFKA_STORAGE_ERROR",
    "REBALANCE_IN_PROGRESS",
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "INCONSISTENT_GROUP_PROTOCOL",  # while instances with another assignment strategy are replaced
    "OFFSET_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_ID",
    "INCONSISTENT_TOPIC_ID",
    "FETCH_SESSION_ID_NOT_FOUND",
    "INVALID_FETCH_SESSION_EPOCH",
    "THROTTLING_QUOTA_EXCEEDED",
}
"""What a running consumer waits out: librdkafka tries again, and the brokers or an operator fix it."""
_REFUSALS = frozenset(
    {
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "_AUTHENTICATION",
    }
)
"""A wrong configuration at the start; later an ACL or a password that is changed, which is waited out."""
REFUSED_MESSAGES = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_MSG",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "MSG_SIZE_TOO_LARGE",
        "POLICY_VIOLATION",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TOPIC_EXCEPTION",
        "UNKNOWN_TOPIC_OR_PART",
        "_UNKNOWN_PARTITION",
        "_UNKNOWN_TOPIC",
    }
)
"""What the brokers answer again to the same message."""

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
        except confluent.KafkaException as error:
            if error.args[0].name() not in PASSING_ERRORS or time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def results_of(asked: "Mapping[_Key, Future[_Answer]]") -> dict[_Key, _Answer]:
    """Return what an admin client was answered.

    An answer that is an error keeps it, and those who hold the answer would be kept by it, were it raised itself: the
    client too, whose threads end with its last reference.

    Raises:
        KafkaException: One of the answers is an error.
    """
    found: dict[_Key, _Answer] = {}
    for key, answer in asked.items():
        if (error := answer.exception()) is not None:
            raise type(error)(*error.args)
        found[key] = answer.result()
    return found


def sentence_of(error: "confluent.KafkaError") -> str:
    """Return what librdkafka says of an error, with its name."""
    return f"{error.str()} ({error.name()})"


def translate(error: "confluent.KafkaError", servers: str = "") -> BrokerError:
    """Return our error for one of librdkafka's, by its code, with the brokers that were asked if they are named."""
    sentence = f"{sentence_of(error)}{servers and f'; the brokers asked are {servers}'}"
    if error.name() in _UNREACHABLE:  # librdkafka names what it was about to ask
        sentence = f"the brokers {servers and f'{servers} '}do not answer ({error.name()})"
    # Of a partition without a leader librdkafka says that it is unknown.
    passes = error.name() in _UNREACHABLE | _RESTARTING | {"_UNKNOWN_PARTITION"}
    return (BrokerUnavailableError if passes else BrokerError)(sentence)


def raise_lasting(error: "confluent.KafkaError") -> None:
    """Raise our error for one that a consumer does not get over by itself."""
    if error.fatal() or error.name() not in PASSING_ERRORS:
        raise translate(error)


def raise_stopping(error: "confluent.KafkaError", *, has_joined: bool) -> None:
    """Raise our error for one that stops a running consumer; it waits all others out.

    Args:
        has_joined: Whether the group has given it partitions since it started.
    """
    if error.fatal() or error.name() not in (WAITED_OUT | _REFUSALS if has_joined else WAITED_OUT):
        raise translate(error)
