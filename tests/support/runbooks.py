"""The pages of ``docs/recovery``: their commands, run in order for a pipeline and its consumer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.service import Service

_FOLDER = Path(__file__).parents[2] / "docs" / "recovery"
_EXIT = re.compile(r"#.*\bexits? (\d+)")


def blocks(page: str, section: str) -> list[str]:
    """Return the blocks of commands of a page's section, in their order."""
    [text] = [each for each in (_FOLDER / page).read_text().split("\n## ") if each.startswith(f"{section}\n")]
    return [re.sub(r"(?m)^ +", "", block) for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]


def separate_service(pipeline: Pipeline) -> Service:
    """Return a consuming service whose database lies on the stack's server, and not with the outbox."""
    dsn = pipeline.stack.postgres.create_database(f"{pipeline.name}_shipping")
    return Service(replace(pipeline, dsn=dsn))


def run_block(block: str, words: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Run a block's commands, hold that each exits with 0 or as its comment says, and return what they print.

    Args:
        words: What stands for the page's names.
    """
    printed = ""
    for line in block.strip().splitlines():
        name, *arguments = line.partition("#")[0].split()
        assert name == "cdc-outbox", line
        stated = _EXIT.search(line)
        done = run_command(*(words.get(word, word) for word in arguments), env=environment)
        assert done.returncode == (int(stated[1]) if stated else 0), f"{line}\n{done.stdout}{done.stderr}"
        printed += f"$ {line}\n{done.stdout}{done.stderr}"
    return printed


@dataclass
class Runbook:
    """What runs the commands of a page.

    Args:
        spec: The pipeline's file, for ``connectors/orders.yaml``.
        service: Its consumer, for ``shipping``.
    """

    pipeline: Pipeline
    spec: Path
    service: Service

    def run(self, block: str) -> str:
        """Run a block's commands as :func:`run_block`."""
        environment = self.pipeline.stack.environment() | {
            "CDC_OUTBOX_DSN": self.pipeline.dsn,
            "CDC_OUTBOX_INBOX_DSN": self.service.dsn,
            "CDC_OUTBOX_STABLE_FOR": "0s",
            "CDC_OUTBOX_SETTLE": "2s",
        }
        name = self.pipeline.name
        words = {"connectors/orders.yaml": str(self.spec), "shipping": self.service.name, "orders.1": f"{name}.1"}
        return run_block(block, words, environment)
