"""Named statements in ``.sql`` files, one folder a dialect.

``-- name: add`` starts a statement; ``{outbox}`` stands for an identifier that is quoted already, ``:payload`` for
a parameter. A cast is written ``cast(:id as uuid)``, never ``::``. Nothing else in the text is touched. A step that
starts with ``-- unless returned`` is for databases whose earlier step returned no rows.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from cdc_outbox.safe_text import visible

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_TOKEN = re.compile(r"\{(\w+)\}|:([a-z_]\w*)")


@dataclass(frozen=True, slots=True)
class ParameterStyle:
    """How a driver's statements name a parameter.

    Args:
        pattern: With ``{}`` where the name goes.
        special: A character that the driver reads as the start of a parameter, also inside quotes.
        escape: What stands in front of it where it means itself.
    """

    pattern: str
    special: str = ""
    escape: str = ""

    def parameter(self, name: str) -> str:
        """Return how a statement refers to the parameter ``name``."""
        return self.pattern.format(name)

    def identifier(self, quoted: str) -> str:
        """Return a quoted identifier as the driver must find it, whatever characters it is made of."""
        return quoted.replace(self.special, self.escape + self.special) if self.special else quoted


PYFORMAT = ParameterStyle("%({})s", special="%", escape="%")
"""psycopg, psycopg2, Django, PyMySQL, mysqlclient."""
NAMED = ParameterStyle(":{}")
"""sqlite3, aiosqlite."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as it stands in the file."""

    text: str

    def steps(self) -> tuple["Statement", ...]:
        """Return the statements that it consists of where a dialect needs several, to be executed one by one."""
        return tuple(Statement(step) for step in self.text.split(";\n"))

    @property
    def reads_back(self) -> bool:
        """Whether it only asks for rows that an earlier step may have returned already."""
        return self.text.startswith("-- unless returned\n")

    def with_parameters(self, name: str, parameters: Iterable[str]) -> "Statement":
        """Put further parameters in the place of a name, each behind a comma."""
        return Statement(self.text.replace(f"{{{name}}}", "".join(f", :{parameter}" for parameter in parameters)))

    def render(self, names: Mapping[str, str], style: ParameterStyle | None = None) -> str:
        """Put in the identifiers, and the parameters as the driver writes them; without a style they stay."""

        def put_in(token: re.Match[str]) -> str:
            if token[1]:
                return style.identifier(names[token[1]]) if style else names[token[1]]
            return style.parameter(token[2]) if style else token[0]

        return _TOKEN.sub(put_in, self.text)


def comment(text: str) -> str:
    """Return a text as one line of comment: a name in it ends neither the line nor the comment."""
    return f"-- {visible(text)}"


@cache
def load(dialect: str, file: str) -> Mapping[str, Statement]:
    """Return the statements of ``sql/<dialect>/<file>.sql`` by name."""
    parts = _NAME.split(files(__name__).joinpath(dialect, f"{file}.sql").read_text(encoding="utf-8"))
    return {name: Statement(text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}
