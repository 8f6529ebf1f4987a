"""What `--help` prints for every command."""

import re
from collections.abc import Iterator

from tests.support.commands import run_command
from tests.support.golden import golden

_HEADINGS = "Commands|Pipeline|Relay|Tables|Consumer|Parked events|Local stack|Tools"
_COMMANDS = re.compile(rf"^(?:{_HEADINGS}):\n((?:  .*\n?)+)", re.MULTILINE)


def helps(*path: str) -> Iterator[tuple[str, str]]:
    """Yield each command and its help, from what the help of its group lists."""
    done = run_command(*path, "--help", env={"COLUMNS": "110"})
    assert (done.returncode, done.stderr) == (0, "")
    yield " ".join(path), done.stdout
    for listed in _COMMANDS.findall(done.stdout):
        for name in re.findall(r"^  (\S+)", listed, re.MULTILINE):
            yield from helps(*path, name)


def test_every_commands_help() -> None:
    found = dict(helps())
    assert len(found) > 40
    for group in sorted({path.split(" ")[0] for path in found}):
        texts = [f"$ cdc-outbox {path} --help\n{text}" for path, text in found.items() if path.split(" ")[0] == group]
        golden(f"help/{group or 'cdc-outbox'}.txt").check("\n".join(texts))
