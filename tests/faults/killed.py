"""Commands about a pipeline and its consumer that are killed before they are done, and run again."""

import subprocess
import sys
from dataclasses import dataclass
from random import Random
from subprocess import CompletedProcess

from tests.support.own_server import OwnServer
from tests.support.patience import patience
from tests.support.service import Service

_STARTED_SECONDS = 0.5
"""A command does nothing before its modules are read."""
_LONGEST_SECONDS = 1.5


@dataclass(frozen=True)
class Program:
    """Our commands, each as a process of its own."""

    own: OwnServer
    service: Service
    random: Random

    def environment(self) -> dict[str, str]:
        """Return the variables by which a command finds everything."""
        pipeline = self.own.pipeline
        return {
            **pipeline.stack.environment(),
            "PATH": "/usr/bin:/bin",
            "SPEC": str(self.own.spec),
            "CDC_OUTBOX_DSN": pipeline.dsn,
            "CDC_OUTBOX_INBOX_DSN": self.service.dsn,
            "CDC_OUTBOX_CONSUMER": self.service.name,
        }

    def begin(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a command; what it tells comes on its standard error."""
        target = "tests.faults.replayed:consumer" if command == "replay" else str(self.own.spec)
        program = [sys.executable, "-m", "tests.support.quick_program", command, target, *arguments]
        return subprocess.Popen(
            program, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def kill(self, command: str, *arguments: str) -> str:
        """Start a command, kill it at a random moment, and tell how far it came."""
        seconds = self.random.uniform(_STARTED_SECONDS, _LONGEST_SECONDS)
        with self.begin(command, *arguments) as process:
            try:
                process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                return f"killed after {seconds:.2f} s"
        return f"{process.returncode} before it was killed"

    def run(self, command: str, *arguments: str) -> CompletedProcess[str]:
        """Run a command to its end."""
        with self.begin(command, *arguments) as process:
            _, said = process.communicate(timeout=patience(120))
        return CompletedProcess(command, process.returncode, "", said)
