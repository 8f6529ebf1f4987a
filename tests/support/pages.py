"""Pages of the documentation whose code blocks are executed."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tests.support.patience import patience
from tests.support.rig import import_block

ROOT = Path(__file__).parents[2]


class Block(NamedTuple):
    language: str
    text: str


class Page:
    """A page, and which of its blocks were executed."""

    def __init__(self, name: str) -> None:
        self.text = (ROOT / name).read_text()
        found = re.findall(r"^```(\w*)\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        self.blocks = [Block(*each) for each in found]
        self.executed: set[str] = set()

    def block(self, start: str) -> str:
        """Return the one block that starts so, and note that it was executed."""
        [found] = [block.text for block in self.blocks if block.text.startswith(start)]
        self.executed.add(found)
        return found

    def imported(self, name: str, folder: Path) -> ModuleType:
        """Import a block as the module that its first line names."""
        return import_block(self.block(f"# {name}.py"), name, folder)


def run_script(script: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run lines of a block in one shell that stops at the first failure, and return what they print."""
    env = {**environment, "PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=patience(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
