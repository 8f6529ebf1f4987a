"""What the statements for PostgreSQL call is PostgreSQL's own, whatever stands in a schema of the search path.

A role that may create functions in `public` could plant one that fits a call better than PostgreSQL's own, and have it
run by a superuser who asks for the state of a pipeline. Sessions are left as they are, for they may be a pooler's; so
each statement says whose function it means.
"""

import re
from collections.abc import Iterator
from importlib.resources import files

import pytest

SQL = files("cdc_outbox.databases.sql")
FOLDER = SQL / "postgresql"
FIXED = {"migrations", "outbox_schema.sql", "roles.sql"}
"""Their statements run with a search path of their own, as `versions.sql` sets it."""
FILES = sorted(path.name for path in FOLDER.iterdir() if path.name not in FIXED)
SYNTAX = {
    "any",
    "array",
    "cast",
    "coalesce",
    "exists",
    "extract",
    "filter",
    "greatest",
    "in",
    "lateral",
    "nullif",
    "operator",
}
"""What looks like a call and is none: the parser knows it, and looks for no function of its name."""

CALL = re.compile(r"""(?<![\w.}"])([a-z_]\w*)\((?!\)|\*\))""")
"""A call of a function by its bare name. One without arguments is left out: nothing can fit it better."""
OTHERS = {
    "an oid and another type": r"[=<>] *pg_catalog\.to_reg|[=<>] *cast\([^()]* as reg\w+\)",
    # A constant without a type would be taken for JSON where an operator was planted for two.
    "a field of JSON": r"->>? *'",
    "a column whose type the spec's author chose": r"\{(?:id|aggregate_type|aggregate_id|type|source)\}\W *[<>=]",
}
"""Operators that PostgreSQL has for other types than those that they stand between, so that one may be planted."""


def code(file: str) -> str:
    """Return a file without its comments and the contents of its constants."""
    text = re.sub(r"--.*", "", (FOLDER / file).read_text(encoding="utf-8"))
    return re.sub(r"'[^']*'", "''", text)


def unqualified(text: str) -> Iterator[str]:
    for call in CALL.finditer(text):
        # The parser takes `unnest` of several arrays for several calls of PostgreSQL's own.
        if call[1] not in SYNTAX and not (call[1] == "unnest" and has_several_arguments(text[call.end() :])):
            yield call[1]


def has_several_arguments(text: str) -> bool:
    """Whether a comma stands before the end of the call whose arguments a text begins with."""
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            break
        if depth == 0 and character == ",":
            return True
    return False


@pytest.mark.parametrize("file", FILES)
def test_each_function_is_named_with_its_schema(file: str) -> None:
    assert list(unqualified(code(file))) == []


@pytest.mark.parametrize("file", FILES)
def test_each_operator_has_the_types_that_it_stands_between(file: str) -> None:
    text = code(file)
    assert {what: found for what, pattern in OTHERS.items() if (found := re.findall(pattern, text))} == {}


def test_calls_are_told_from_the_rest() -> None:
    calls = "count(*), now(), f(a), pg_catalog.g(a), cast(h(a) as text), {function}(a), unnest(i(a), b), unnest([a, b])"
    assert list(unqualified(calls)) == ["f", "h", "i", "unnest"]


@pytest.mark.parametrize(
    ("relation", "readers"),
    [
        # The fence of a claim is in the statement that claims.
        ("pg_replication_slots", {"postgresql/slots.sql", "postgresql/publishers.sql"}),
        ("pg_attrdef", {"postgresql/catalog.sql"}),
        ("pg_index", {"postgresql/catalog.sql"}),
        ("pg_inherits", {"postgresql/catalog.sql"}),
        # Scripts that run without us look before they act.
        ("pg_attribute", {"postgresql/catalog.sql", "postgresql/outbox_schema.sql"}),
        ("pg_publication_tables", {"postgresql/catalog.sql", "postgresql/outbox_schema.sql"}),
        ("information_schema.columns", {"mysql/catalog.sql", "mysql/outbox_schema.sql"}),
        ("information_schema.statistics", {"mysql/catalog.sql"}),
        ("show binary logs", {"mysql/binlog.sql"}),
    ],
)
def test_what_a_server_knows_is_read_in_one_file(relation: str, readers: set[str]) -> None:
    found = {
        f"{folder.name}/{path.name}"
        for folder in (SQL / "mysql", FOLDER)
        for path in folder.iterdir()
        if path.name.endswith(".sql") and re.search(rf"\b{relation}\b", path.read_text(encoding="utf-8"))
    }
    assert found == readers
