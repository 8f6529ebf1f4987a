"""What the command says, to whoever listens, while a Connect fails that quotes all it was ever told."""

import io
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from cdc_outbox.cli import main
from cdc_outbox.connect.timings import Timings
from cdc_outbox.databases.facts import DatabaseFacts, SlotFacts, WrittenFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.slots import ReplicationSlots
from cdc_outbox.kafka import admin as kafka_admin
from tests.support.connect_server import Answer, Asked
from tests.support.database_facts import GOOD, SLOT

BRIEF = Timings(
    poll_seconds=0.001, failed_seconds=0.001, linger_seconds=0.001, restored_seconds=0.001, late_seconds=0.001
)
"""Nothing is waited for that would only take time."""

FAULTS = ("trace", "connector trace", "validation", 400, 403, 409, 500)


@dataclass
class Worker:
    """A Connect that fails, and quotes in what it says whatever it was told.

    Args:
        secrets: What a plugin has read out of the configuration, and quotes without what stood around it.
    """

    config: dict[str, str]
    fault: str | int
    secrets: tuple[str, ...] = ()
    knows: bool = False

    def __call__(self, asked: Asked) -> Answer:
        quoted = [*(asked.body or {}).items(), *(self.config.items() if self.knows else ())]
        said = "; ".join(f"Invalid value {value} for configuration {option}" for option, value in quoted)
        if isinstance(self.fault, int) and asked.method != "GET" and not asked.path.endswith("/validate"):
            return self.fault, {"error_code": self.fault, "message": f"{said} {asked.headers.get('Authorization')}"}
        if asked.path.endswith("/orders/config"):
            self.config = asked.body or self.config
            self.knows = True
        errors = [said] if self.fault == "validation" else []
        found: dict[str, Any] = {
            "health": {"status": "healthy"},
            "validate": {"configs": [{"value": {"name": "x", "errors": errors}}]},
            "connectors": ["orders"],
            "connectors?expand=status": {"orders": {"status": self._status()}},
            "config": self.config,
            "status": self._status(),
            "offsets": {"offsets": []},
        }
        return 200, found.get(asked.path.rpartition("/")[2], {})

    def _status(self) -> dict[str, Any]:
        quoted = "".join(f"\n\tat {option}={value}" for option, value in self.config.items())
        read = "".join(f"\nCaused by: java.lang.SecurityException: no login with {each}" for each in self.secrets)
        trace = f"org.apache.kafka.common.config.ConfigException: {' '.join(self.config.values())}{quoted}{read}"
        task, connector = {"id": 0, "state": "RUNNING"}, {"state": "RUNNING", "worker_id": "connect-1:8083"}
        if self.fault == "trace":
            task |= {"state": "FAILED", "trace": trace}
        if self.fault == "connector trace":
            connector |= {"state": "FAILED", "trace": trace}
        return {"connector": connector, "tasks": [task]}


class Ready:
    """A database that is as it should be, and whose slot nobody reads, for the connector fails."""

    def __init__(self, *_arguments: object) -> None:
        self.slot = SLOT
        self.publishers = SimpleNamespace(
            find=lambda: None, exists=lambda: False, find_relayed=lambda _slot: None, forget=lambda _epoch: None
        )

    def read_facts(self) -> DatabaseFacts:
        return replace(GOOD, slot=self.slot)

    def find_slot(self) -> SlotFacts:
        return self.slot

    def read_slots(self) -> ReplicationSlots:
        return ReplicationSlots(database="orders", log_end=Lsn(2), limit=1, slots={self.slot.name: self.slot})

    def read_written(self) -> WrittenFacts:
        return WrittenFacts()

    def count_events_outside_slot(self, _columns: object) -> int:
        return 0


@contextmanager
def opened(*_arguments: object, **_options: object) -> Iterator[tuple[None, None]]:
    yield None, None


def said_by(*arguments: str, variables: Mapping[str, str]) -> str:
    """Return everything that one call of the command says: to both streams, to the log, and what it ends with."""
    out, terminate = io.StringIO(), signal.getsignal(signal.SIGTERM)
    log = logging.StreamHandler(out)
    root = logging.getLogger()
    level = root.level
    root.addHandler(log)
    root.setLevel(logging.DEBUG)
    code: object = None
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    try:
        with (
            patch.object(sys, "argv", ["cdc-outbox", *arguments]),
            patch.dict(os.environ, clean, clear=True),
            redirect_stdout(out),
            redirect_stderr(out),
        ):
            main(timings=BRIEF)
    except SystemExit as ended:
        code = ended.code
    finally:
        root.removeHandler(log)
        root.setLevel(level)
        signal.signal(signal.SIGTERM, terminate)
    said = out.getvalue()
    assert "Usage:" not in said, f"{arguments} was not run, so that it shows nothing: {said}"
    return f"{said}\nended with {code}"


@contextmanager
def impatient() -> Iterator[None]:
    """Wait for no broker that would only take time."""
    with patch.object(kafka_admin, "_ADMIN_SECONDS", 0.05):
        yield
