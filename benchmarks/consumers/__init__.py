"""The contestants of the consumer's benchmark: loops as people write them by hand, and ours."""

from benchmarks.consumers.by_hand import Batched, CheckThenAct, OnePerTransaction, OneStatement, Pipelined
from benchmarks.consumers.ours import Ours, OursOnBatch, OursPipelined
from benchmarks.consumers.work import Contestant

CONTESTANTS: dict[str, type[Contestant]] = {
    "one transaction a message": OnePerTransaction,
    "check, then act": CheckThenAct,
    "bare, per event": Batched,
    "bare, pipeline": Pipelined,
    "bare, one statement": OneStatement,
    "ours, per event": Ours,
    "ours, pipeline": OursPipelined,
    "ours, on_batch": OursOnBatch,
}
"""None of those by hand but the second remembers an id, and none looks at the order."""

SLOW = frozenset({"one transaction a message", "check, then act"})
"""Those that wait for the disk at every message."""
