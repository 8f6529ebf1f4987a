"""What a command tells to do about what it found, done."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from tests.support.commands import run_command
from tests.support.pipeline import Pipeline


def commands_in(remedy: str, *, way: str = "republish") -> list[str]:
    """Return the commands that a remedy quotes.

    Args:
        way: Of two commands that differ by this word, the one that is meant.
    """
    commands = re.findall(r"`cdc-outbox ([^`]+)`", remedy)
    return [command for command in commands if way in command] or commands


@dataclass
class Operator:
    """Somebody who runs commands on one pipeline, and does what they tell.

    Args:
        spec: The pipeline's, as a file.
    """

    pipeline: Pipeline
    spec: Path

    @property
    def env(self) -> Mapping[str, str]:
        """Where everything is."""
        return self.pipeline.stack.environment() | {"CDC_OUTBOX_DSN": self.pipeline.dsn}

    def run(self, command: str, *options: str) -> CompletedProcess[str]:
        """Run a command on the pipeline's spec."""
        waits = ("--stable-for=0s",) if command == "deploy-connector" else ()
        return run_command(*command.split(), self.spec, *options, *waits, env=self.env)

    def findings(self, command: str, *options: str) -> list[dict[str, Any]]:
        """Return what ``preflight`` or ``doctor`` finds."""
        done = self.run(command, "--output=json", *options)
        return list(json.loads(done.stdout)["findings"]) if done.stdout else []

    def obey(self, remedy: str, *, way: str = "republish") -> None:
        """Carry out a remedy: a statement for the database, or the commands that it quotes, each with success."""
        commands = commands_in(remedy, way=way)
        if not commands:
            with self.pipeline.connect() as connection:
                connection.execute(remedy.encode())
        for command in commands:
            name, *options = command.split()
            done = self.run(name, *options)
            assert done.returncode == 0, done.stderr
