"""Debezium's own event routers and Connect's own converters, in one JVM that lives as long as it is asked."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from cdc_outbox.debezium.event_router import ConnectRecord, RoutingConfig
from cdc_outbox.debezium.event_router.jvm import encoding
from cdc_outbox.debezium.event_router.jvm.jars import Jvm
from cdc_outbox.errors import RoutingError, StackError
from cdc_outbox.message import Message

Outcome = Message | RoutingError | None
"""What becomes of a record: a message, the error at which the task would fail, or nothing."""

_DRIVER = Path(__file__).parent / "RouterDriver.java"


class RealRouter:
    """Runs cases one after the other; each has routers and converters of its own. Made by :func:`open`."""

    def __init__(self, cases: IO[str], answers: IO[str], log: Path) -> None:
        self._cases = cases
        self._answers = answers
        self._log = log

    @classmethod
    @contextmanager
    def open(cls, jvm: Jvm, plugin: Path | None = None) -> "Iterator[RealRouter]":
        """Start a JVM, and end it.

        Args:
            plugin: The folder of a connector's jars, by default the PostgreSQL connector's of the local stack.

        Raises:
            StackError: Only a runtime of Java is installed, and no compiler.
        """
        jars = plugin or jvm.home / "plugins" / "debezium-connector-postgres"
        with tempfile.TemporaryDirectory(prefix="cdc-outbox-") as folder:
            log = Path(folder) / "java.log"
            command = [
                *(jvm.java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.apache.logging.log4j.level=OFF"),
                *("-cp", os.pathsep.join([f"{jvm.home}/libs/*", f"{jars}/*"]), str(_DRIVER)),
            ]
            with log.open("w") as said, _running(command, said) as (cases, answers):
                yield cls(cases, answers, log)

    def route(self, config: RoutingConfig, records: Sequence[ConnectRecord], *, connector: str) -> list[Outcome]:
        """Return what becomes of the records, one by one; if nothing can be configured, one error for them all.

        Args:
            connector: Debezium's word for the database, such as ``postgresql``.

        Raises:
            StackError: Java ended.
        """
        self.ask(config, records, connector=connector)
        return self.answer()

    def ask(self, config: RoutingConfig, records: Sequence[ConnectRecord], *, connector: str) -> None:
        """Begin what :meth:`route` does; the caller has something else to do until :meth:`answer`."""
        case = {
            "router": encoding.component(config.router),
            "key": encoding.component(config.key),
            "value": encoding.component(config.value),
            "header": encoding.component(config.header),
            "connector": connector,
            "records": [encoding.record(record) for record in records],
        }
        # Where Java is gone the answer says so.
        with suppress(BrokenPipeError):
            self._cases.write(json.dumps(case) + "\n")
            self._cases.flush()

    def answer(self) -> list[Outcome]:
        """Return what became of the records that were asked about last."""
        answer = self._answers.readline()
        if not answer:
            raise self._death()
        return [encoding.outcome(result) for result in json.loads(answer)]

    def _death(self) -> StackError:
        said = [line for line in self._log.read_text().splitlines() if line and not line.startswith("Note:")]
        return StackError(
            f"Debezium's EventRouter cannot be run: {said[0] if said else 'Java said nothing'}",
            hint="A compiler is needed: on Debian or Ubuntu `apt-get install openjdk-17-jdk-headless`.",
        )


@contextmanager
def _running(command: Sequence[str], log: IO[str]) -> Iterator[tuple[IO[str], IO[str]]]:
    """Run a program, and yield what it reads and what it writes; it ends when the first is closed."""
    with subprocess.Popen(  # noqa: S603 - this package's own program
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8"
    ) as process:
        try:
            yield cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
        except BaseException:
            process.kill()
            raise
        finally:
            # Input that the program never read is no error.
            with suppress(BrokenPipeError):
                cast("IO[str]", process.stdin).close()
