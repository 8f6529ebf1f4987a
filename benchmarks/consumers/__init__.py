"""The contestants of the consumer's benchmark: loops as people write them by hand, and ours."""

from benchmarks.consumers.by_hand import (
    Batched,
    CheckThenAct,
    OnePerTransaction,
    OneStatement,
    OurStatements,
    OurStatementsOnBatch,
    OurStatementsPipelined,
    Pipelined,
)
from benchmarks.consumers.ours import Ours, OursOnBatch, OursPipelined
from benchmarks.consumers.work import Contestant

CONTESTANTS: dict[str, type[Contestant]] = {
    "one transaction a message": OnePerTransaction,
    "check, then act": CheckThenAct,
    "bare, per event": Batched,
    "bare, pipeline": Pipelined,
    "bare, one statement": OneStatement,
    "statements, per event": OurStatements,
    "statements, pipeline": OurStatementsPipelined,
    "statements, on_batch": OurStatementsOnBatch,
    "ours, per event": Ours,
    "ours, pipeline": OursPipelined,
    "ours, on_batch": OursOnBatch,
}
"""The first five remember no id, except for the second, and do not look at the order. Those called statements execute
what ours does and decide nothing: no consumer that stores the same is faster without doing two things at once."""

SLOW = frozenset({"one transaction a message", "check, then act"})
"""Those that wait for the disk at every message."""
