"""Named statements in ``.sql`` files, one folder a dialect.

Each file is SQL that an editor reads. ``-- name: add`` starts a statement, which ends with a semicolon; where a dialect
needs several, to be executed one by one, ``-- then`` stands between them. Nothing is split at a semicolon. A step that
starts with ``-- unless returned`` is for databases whose earlier step returned no rows.

====================================  ====================================================================
``"{outbox}"``, in MySQL's backticks  an identifier, or several SQL items: columns, expressions. Where it
                                      has no item, the comma in front of it goes too
``'{name_literal}'``                  a constant
``:payload``                          a parameter; so a cast is written ``cast(:id as uuid)``, never ``::``
``-- if archive`` … ``-- end``        lines of their own: the text between them is kept where ``archive`` is
                                      not empty
====================================  ====================================================================

Nothing else in the text is touched, nothing in comments, and nothing that is a part of a constant or an identifier.
Text between ``$$`` is code like all else.

``<dialect>/migrations/<component>/0001_initial.sql`` holds the statements of one version of a component's tables. There
``-- name: create_rest if partitioned`` starts a statement for some tables only; its caller knows the condition.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from cdc_outbox.errors import OutboxError
from cdc_outbox.redaction import visible

FOLDER: Traversable = files(__name__)
_NAME = re.compile(r"^-- name: (\w+)(?: if (\w+))?\n", re.MULTILINE)
_VERSION = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_FORM = (
    "Start each statement with a line `-- name: some_name`, or `-- name: some_name if condition` in a migration, and "
    "end it with a semicolon."
)
_REGION = re.compile(r"^ *-- if (\w+)\n(.*?)^ *-- end$\n?", re.MULTILINE | re.DOTALL)
_TOKEN = re.compile(
    r"""
    (?P<comma>,\s*)?(?P<quote>["'`])\{(?P<name>\w+)\}(?P=quote)
    |:(?P<parameter>[a-z_]\w*)
    |--[^\n]* |/\*(?!M?!).*?\*/ |'(?:[^']|'')*' |"(?:[^"]|"")*" |`(?:[^`]|``)*`  # left as they are
    """,
    re.VERBOSE | re.DOTALL,
)
"""MariaDB's ``/*M!`` and MySQL's ``/*!`` begin code, and no comment."""
_CAST_FOR_COLUMN = re.compile(
    r'cast\(cast\((:id|:payload) as (?:text|"\{payload_input\}")\) as (?:uuid|"\{payload_type\}")\)'
)
"""The casts of values that an insertion writes into columns. A constant in quotes needs none."""
_CAST_AS_TEXT = re.compile(r'cast\(cast\((:\w+) as (?:text|"\{payload_input\}")\) as ')
"""A cast of a parameter that is sent as text. A constant in quotes is no text yet: one cast turns it into anything, and
the server need not compute it."""

_MAX_RENDERED = 512
"""How many rendered statements are kept. A service may create an outbox for each request, and each has two dozen; a
statement with 500 parameters takes about 20 kB, so thousands would be too many."""


@dataclass(frozen=True, slots=True, eq=False)  # each driver has one, and the writer looks it up for every event
class ParameterStyle:
    """How a driver's statements name a parameter.

    Args:
        pattern: With ``{}`` where the name goes.
        special: A character that the driver reads as the start of a parameter, also inside quotes.
        escape: What stands in front of it where it means itself.
        writes_constants: Whether the driver puts values into the text, as constants in quotes.
        casts_times: Whether the driver's ``fetch_often`` returns a time that is cast to text in ISO 8601, whatever the
            session's settings.
    """

    pattern: str
    special: str = ""
    escape: str = ""
    writes_constants: bool = False
    casts_times: bool = False

    def parameter(self, name: str) -> str:
        """Return how a statement refers to the parameter ``name``."""
        return self.pattern.format(name)

    def identifier(self, quoted: str) -> str:
        """Return a quoted identifier as the driver must find it, whatever characters it is made of."""
        return quoted.replace(self.special, self.escape + self.special) if self.special else quoted


PYFORMAT = ParameterStyle("%({})s", special="%", escape="%")
"""psycopg, Django, PyMySQL, mysqlclient."""
PYFORMAT_CONSTANTS = ParameterStyle("%({})s", special="%", escape="%", writes_constants=True)
"""psycopg2."""
NAMED = ParameterStyle(":{}")
"""sqlite3, aiosqlite."""
_MARK = "\0"
"""Stands around a parameter's name until it gets its number. No identifier holds it, so none need be escaped."""
NUMBERED = ParameterStyle(f"{_MARK}{{}}{_MARK}")
"""asyncpg; :func:`numbered` makes the statement that it takes."""


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
        return tuple(Statement(step) for step in self.text.split(";\n-- then\n"))

    @property
    def reads_back(self) -> bool:
        """Whether it only asks for rows that an earlier step may have returned already."""
        return self.text.startswith("-- unless returned\n")

    def with_parameters(self, name: str, parameters: Iterable[str]) -> "Statement":
        """Put further parameters in the place of a name."""
        return Statement(_with_parameters(self.text, name, tuple(parameters)))

    def without_casts(self) -> "Statement":
        """Return the statement without the casts of values that it writes into columns, for a driver of constants.

        The columns must have the types that ``init`` creates.
        """
        return Statement(_CAST_FOR_COLUMN.sub(r"\1", self.text))

    def render(self, names: Mapping[str, str], style: ParameterStyle | None = None) -> str:
        """Put in the names, and the parameters as the driver writes them; without a style they stay."""
        return _render(self.text, tuple(names.items()), style)


@lru_cache(maxsize=_MAX_RENDERED)
def _with_parameters(text: str, name: str, parameters: tuple[str, ...]) -> str:
    listed = ", ".join(f":{parameter}" for parameter in parameters)

    def put_in(token: re.Match[str]) -> str:
        return token[0] if token["name"] != name else _item(token, listed)

    return _TOKEN.sub(put_in, text)


@lru_cache(maxsize=_MAX_RENDERED)
def _render(text: str, named: tuple[tuple[str, str], ...], style: ParameterStyle | None) -> str:
    names = dict(named)

    def put_in(token: re.Match[str]) -> str:
        if token["name"]:
            item = names[token["name"]]
            return _item(token, style.identifier(item) if style else item)
        return style.parameter(token["parameter"]) if style and token["parameter"] else token[0]

    text = _REGION.sub(lambda region: region[2] if names[region[1]] else "", text).rstrip()
    if style and style.writes_constants:
        text = _CAST_AS_TEXT.sub(r"cast(\1 as ", text)
    tag, number = "$$", 0
    while True:
        rendered = _TOKEN.sub(put_in, text.replace("$$", tag))
        # Whatever tables are called, their names do not end the block that they stand in.
        if rendered.count(tag) == text.count("$$"):
            return rendered
        number += 1
        tag = f"$q{number}$"


def _item(token: re.Match[str], item: str) -> str:
    return f"{token['comma'] or ''}{item}" if item else ""


def comment(text: str) -> str:
    """Return a text as one line of comment: a name in it ends neither the line nor the comment."""
    return f"-- {visible(text)}"


@lru_cache(maxsize=1000)
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return a ``NUMBERED`` statement with ``$1``, ``$2`` … in it, and whose number is whose; a name has one."""
    parts = sql.split(_MARK)
    names = tuple(dict.fromkeys(parts[1::2]))
    numbers = {name: f"${number}" for number, name in enumerate(names, start=1)}
    parts[1::2] = [numbers[name] for name in parts[1::2]]
    return "".join(parts), names


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
    bodies = [body.strip() for body in parts[2::3]]
    statements = {
        name: Statement(body.removesuffix(";"), condition or "")
        for name, condition, body in zip(parts[::3], parts[1::3], bodies, strict=True)
    }
    if not all(step.rstrip().endswith(";") for body in bodies for step in body.split("\n-- then\n")):
        raise OutboxError(f"{file.name} has a statement that does not end with a semicolon", hint=_FORM)
    if not statements or any(line and not line.startswith("--") for line in before.splitlines()):
        raise OutboxError(f"{file.name} has no statement, or one without a name", hint=_FORM)
    if len(statements) != len(re.findall(r"^-- *name", text, re.MULTILINE)):
        raise OutboxError(f"{file.name} repeats a name, or has an invalid line `-- name: …`", hint=_FORM)
    return statements
