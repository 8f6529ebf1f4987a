"""Texts that command what reads them, and what must be true of everything that a command prints."""

import re
from pathlib import Path

SECRET = "hunter2-s3cret"
"""In reach of the command, and of no one who writes a text."""

_SHELL = "$(touch {marker}) `touch {marker}` ; touch {marker} #"
_SQL = "'; drop table effects; --\" $$ \\! touch {marker}"
_TERMINAL = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e\r\n::error file=x::planted\n##vso[task.x]y"
_REFERENCES = "${{env:GITHUB_TOKEN}} ${{file:/etc/passwd:root}} {{0.__class__}} %(x)s %s"


def hostile_text(marker: Path) -> str:
    """Return a text for terminals, CI runners, shells, SQL, psql and templates; what obeys it makes a file."""
    return f"{_TERMINAL} {_SHELL} {_SQL} {_REFERENCES}".format(marker=marker)


def assert_harmless(printed: str, *, is_document: bool = False) -> None:
    """Assert that no terminal and no CI runner obeys a text, and that no secret stands in it.

    Args:
        is_document: Another program reads it; a runner obeys what stands at the beginning of a line.
    """
    assert SECRET not in printed
    assert not re.search(r"[^\n\t -~\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\U0010ffff]", printed), printed
    assert "\u202e" not in printed
    commands = r"^\s*(::error file=x|##\[|##vso)" if is_document else r"^\s*::|##\[|##vso"
    assert not re.search(commands, printed, re.MULTILINE), printed
