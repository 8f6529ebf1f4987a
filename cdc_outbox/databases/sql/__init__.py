"""Named statements in ``.sql`` files, one folder a dialect.

``-- name: add`` starts a statement; ``{outbox}`` stands for an identifier that is quoted already, ``:payload`` for
a parameter. A cast is written ``cast(:id as uuid)``, never ``::``. Nothing else in the text is touched. A step that
starts with ``-- unless returned`` is for databases whose earlier step returned no rows.

``<dialect>/migrations/<component>/0001_initial.sql`` holds the statements of one version of a component's tables. There
``-- name: create_rest if partitioned`` starts a statement for some tables only; whoever renders it knows the condition.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from cdc_outbox.errors import OutboxError
from cdc_outbox.redaction import visible

FOLDER: Traversable = files(__name__)
_NAME = re.compile(r"^-- name: (\w+)(?: if (\w+))?\n", re.MULTILINE)
_VERSION = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_FORM = "Start each statement with a line `-- name: some_name`, or `-- name: some_name if condition` in a migration."
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
    """One statement as it stands in the file.

    Args:
        condition: Of a migration's statement: the name of what must hold for it to be run; empty for always.
    """

    text: str
    condition: str = ""

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
    return _read(FOLDER.joinpath(dialect, f"{file}.sql"))


@cache
def load_versions(dialect: str, component: str) -> Mapping[int, Mapping[str, Statement]]:
    """Return the statements of ``sql/<dialect>/migrations/<component>/`` by version, and by name.

    A version is the number that a file's name starts with.

    Raises:
        OutboxError: A file has another name, or the versions do not count up from 1.
    """
    found: dict[int, Mapping[str, Statement]] = {}
    folder = FOLDER.joinpath(dialect, "migrations", component)
    for expected, file in enumerate(sorted(folder.iterdir(), key=lambda file: file.name), 1):
        match = _VERSION.fullmatch(file.name)
        if match is None:
            raise _broken(dialect, component, f"{file.name} must have a name such as 0002_add_note.sql")
        if int(match[1]) != expected:
            raise _broken(dialect, component, f"{file.name} must have version {expected}")
        found[expected] = _read(file)
    if not found:
        raise _broken(dialect, component, "there are none")
    return found


def _broken(dialect: str, component: str, reason: str) -> OutboxError:
    return OutboxError(
        f"the migrations of the {component} on {dialect} cannot be used: {reason}",
        hint="Install cdc-outbox again. Versions are numbered without gaps or repetitions.",
    )


def _read(file: Traversable) -> Mapping[str, Statement]:
    """Return a file's statements by name.

    Raises:
        OutboxError: A statement would get lost, or become a part of another one.
    """
    text = file.read_text(encoding="utf-8")
    before, *parts = _NAME.split(text)
    statements = {
        name: Statement(body.strip(), condition or "")
        for name, condition, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }
    if not statements or any(line and not line.startswith("--") for line in before.splitlines()):
        raise OutboxError(f"{file.name} has no statement, or one without a name", hint=_FORM)
    if len(statements) != len(re.findall(r"^-- *name", text, re.MULTILINE)):
        raise OutboxError(f"{file.name} repeats a name, or has an invalid line `-- name: …`", hint=_FORM)
    return statements
