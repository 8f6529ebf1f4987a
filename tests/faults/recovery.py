"""Random histories of restores, lost slots and interrupted commands, then the documented recovery, then a count.

`infra/faults recovery --histories 200` goes on where it was interrupted; it exits 1 at the first history after which
a committed event has not had its effect once and is not named either, and prints its seed. `--seed N` repeats it.
"""

import argparse
import json
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from cdc_outbox.databases.source import Source
from cdc_outbox.testing import Postgres, Stack, StackConfig
from cdc_outbox.testing.postgres import make_postgres
from tests.faults.history import History
from tests.faults.oracle import Oracle
from tests.faults.runbook import Runbook
from tests.support.own_server import OwnServer
from tests.support.pipeline import SERVICE_TEMPLATE, Pipeline, create_service_tables
from tests.support.rig import CONNECTOR_PASSWORD, eventually, open_folder
from tests.support.service import Service

PROGRESS = Path(".cache") / "faults-recovery.json"


@dataclass
class Told:
    """How a history went.

    Args:
        unaffected: How many events had no effect.
        violations: What is wrong.
        log: The steps, and the commands of the recovery.
    """

    events: int = 0
    unaffected: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


def run_history(stack: Stack, server: Postgres, folder: Path, seed: int, *, steps: int = 10) -> Told:
    """Let a history befall a new pipeline on a server, recover, and count."""
    told, begun_at = Told(), time.monotonic()
    name = f"h{seed}x{time.monotonic_ns() % 10**9}"
    random = Random(f"recovery {seed}")  # noqa: S311 - it is to repeat itself
    with OwnServer.on(server, stack, folder, name) as own:
        history = History(own, _make_service(stack, own), random)
        runbook = Runbook(own, history.service, Source(name, 1), history.program, log=history.log)
        oracle = Oracle(history, runbook)
        try:
            with _logged(history.log), _consuming(history):
                history.write()
                for part in _parts(steps, random):
                    history.befall(part)
                    runbook.follow()
                    told.violations += oracle.judge()
                    told.violations += _prove(history)
        except Exception as error:  # noqa: BLE001 - a history that cannot go on is what is looked for
            told.violations.append(f"{type(error).__name__}: {error}")
            history.log += traceback.format_exc().splitlines()
        history.clear()
    told.log, told.unaffected = history.log, oracle.unaffected
    told.events, told.seconds = len(history.ledger.committed), time.monotonic() - begun_at
    return told


@contextmanager
def _consuming(history: History) -> Iterator[None]:
    history.start_consumer()
    try:
        yield
    finally:
        history.stop_consumer()


@contextmanager
def _logged(lines: list[str]) -> Iterator[None]:
    """Note what the consumer logs."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(f"    consumer: {record.getMessage()}")  # type: ignore[method-assign]
    logger = logging.getLogger("cdc_outbox")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _parts(steps: int, random: Random) -> list[int]:
    """Return how many steps there are before each recovery."""
    first = random.randint(1, steps)
    return [each for each in (first, steps - first) if each]


def _make_service(stack: Stack, own: OwnServer) -> Service:
    """Return a consumer whose database is on the stack's server, and not on the producer's."""
    stack.postgres.create_template(SERVICE_TEMPLATE, create_service_tables)
    dsn = stack.postgres.create_database(own.pipeline.name, template=SERVICE_TEMPLATE)
    pipeline = Pipeline(stack, own.pipeline.spec, dsn)
    pipeline.create_topics(2)
    return Service(pipeline)


def _prove(history: History) -> Iterator[str]:
    """Write on, and expect every effect."""
    before = set(history.ledger.committed)
    history.write(count=6)
    new = history.ledger.committed.keys() - before

    def had_effects() -> bool:
        found = history.service.rows("select event_id from effects where event_id = any(%s)", sorted(new))
        return len(found) == len(new)

    try:
        eventually(had_effects, "the effects of what is written afterwards")
    except AssertionError as error:
        yield str(error)


def main() -> int:
    """Run histories and tell how they went."""
    parser = argparse.ArgumentParser(prog="infra/faults recovery", description=__doc__.partition("\n")[0])
    parser.add_argument("--histories", type=int, default=20, help="how many, from seed 0 on")
    parser.add_argument("--seed", type=int, help="only this one, and tell all of it")
    parser.add_argument("--steps", type=int, default=10, help="how long each is")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first that is violated")
    parser.add_argument("--anew", action="store_true", help="do not go on where the last call was interrupted")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = 0 if options.anew or options.seed is not None else _passed(options.steps)
    seeds = [options.seed] if options.seed is not None else range(begin, options.histories)
    if begin:
        _tell(f"goes on at seed {begin}")
    good = True
    with open_ground() as (stack, server, folder):
        _tell(f"{'seed':<8}{'events':>8}{'without':>8}{'seconds':>9}  verdict")
        for seed in seeds:
            told = run_history(stack, server, folder, seed, steps=options.steps)
            verdict = "VIOLATED" if told.violations else "good"
            _tell(f"{seed:<8}{told.events:>8}{told.unaffected:>8}{told.seconds:>9.1f}  {verdict}")
            for line in [*told.violations, *(told.log if told.violations or options.seed is not None else ())]:
                _tell(f"    {line}")
            good = good and not told.violations
            if not (good or options.keep_going):
                break
            if options.seed is None:
                _note(seed + 1, options.steps)
    if good and options.seed is None:
        PROGRESS.unlink(missing_ok=True)
    return 0 if good else 1


@contextmanager
def open_ground() -> Iterator[tuple[Stack, Postgres, Path]]:
    """Start a stack, and beside it the producer's server, whose storage is copied and put back."""
    config = StackConfig(
        name=f"recovery-{os.getpid()}",
        short_lived=True,
        worker_settings={"offset.flush.interval.ms": "500"},
        environment={"CONNECTOR_PASSWORD": CONNECTOR_PASSWORD},
    )
    with Stack(config) as stack, open_folder() as folder, open_server(stack, folder) as server:
        yield stack, server, folder


@contextmanager
def open_server(stack: Stack, folder: Path) -> Iterator[Postgres]:
    """Start the producer's server."""
    server = make_postgres(folder / "server", stack.folder.reserve_port(), short_lived=True)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _passed(steps: int) -> int:
    """Return the first seed that has not passed yet with so many steps."""
    if not PROGRESS.exists():
        return 0
    noted = json.loads(PROGRESS.read_text())
    return int(noted["next"]) if noted["steps"] == steps else 0


def _note(following: int, steps: int) -> None:
    PROGRESS.parent.mkdir(exist_ok=True)
    PROGRESS.write_text(json.dumps({"next": following, "steps": steps}))


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
