"""``cdc-outbox relay`` as a process beside a test."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdc_outbox.databases.facts import RELAY
from tests.support.commands import PROGRAM
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one

_SLOT_SECONDS = 300
"""To create a slot, the server waits for every transaction that is open, those of other tests among them."""


@contextmanager
def relay(pipeline: Pipeline, spec: Path, *options: str, log: Path | None = None) -> Iterator["subprocess.Popen[str]"]:
    """Run the command; its log goes to a file, or to its pipe."""
    env = {
        "PATH": "/usr/bin:/bin",
        "CDC_OUTBOX_DSN": pipeline.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": pipeline.stack.broker.bootstrap_servers,
        "CDC_OUTBOX_SLOT_TIMEOUT": f"{_SLOT_SECONDS}s",
    }
    with (spec.with_suffix(".log") if log is None else log).open("a") as errors:
        process = subprocess.Popen(
            [PROGRAM, "relay", str(spec), *options], env=env, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(patience())
            assert process.stdout is not None
            process.stdout.close()


def wait_until_read(pipeline: Pipeline) -> None:
    """Wait until a relay reads the slot."""
    eventually(lambda: is_read(pipeline), "the relay to read", seconds=_SLOT_SECONDS)


def is_read(pipeline: Pipeline) -> bool:
    """Return whether a relay reads the slot; the process that still creates it has it, too."""
    query = """
        select count(*) from pg_replication_slots join pg_stat_replication on pid = active_pid
        where slot_name = %s and application_name = %s
    """
    with pipeline.connect() as connection:
        return bool(one(connection, query, pipeline.spec.database.slot, f"{RELAY}{pipeline.name}"))
