"""The tree in the docstring is the tree in the code, and each error says what to do."""

import ast
import inspect
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

import cdc_outbox
from cdc_outbox import errors
from cdc_outbox.errors import CdcOutboxError, NotInTransactionError
from cdc_outbox.relay import relay_errors

PACKAGE = Path(cdc_outbox.__file__).parent
SELF_EXPLANATORY = {
    "ConfigError": "the message has the rule that the value breaks, and .field its place",
    "ConnectorInvalidError": "each of .findings has its remedy",
    "ConsumerError": "the handler's own error is the cause",
    "HandlerError": "the handler's own error is the cause",
    "PartitionLostError": "the consumer itself goes on with the partitions that it has",
    "RoutingError": "what quotes it, a finding or a command, has the remedy",
}
"""Errors that may be raised without a hint, and what stands in its place."""


def drawn_tree() -> dict[str, tuple[str, bool]]:
    """Read the drawings in the docstrings: error → (parent, retryable)."""
    assert errors.__doc__
    assert relay_errors.__doc__
    tree: dict[str, tuple[str, bool]] = {}
    path: list[str] = []
    for line in (errors.__doc__ + relay_errors.__doc__).splitlines():
        stripped = line.lstrip(" │├└─")
        name = stripped.split(" ")[0]
        if not (line.startswith("    ") and name.endswith("Error")):
            continue
        depth = (len(line) - len(stripped)) // 4 - 1
        path[depth:] = [name]
        tree[name] = (path[depth - 1] if depth else "Exception", "retryable" in stripped)
    return tree


def classes() -> dict[str, type[CdcOutboxError]]:
    return {
        name: kind
        for module in (errors, relay_errors)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, CdcOutboxError) and kind.__module__ == module.__name__
    }


def raised_without_hint(source: str) -> Iterator[tuple[str, int]]:
    """Return the errors that are made without a hint, neither of their own nor of their class: name and line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            kind = classes().get(name)
            # ``**options`` has no name here.
            if kind is not None and not kind.hint and not {"hint", None} & {each.arg for each in node.keywords}:
                yield name, node.lineno


def test_the_drawn_tree_is_the_real_one() -> None:
    real = {name: (kind.__bases__[0].__name__, kind.retryable) for name, kind in classes().items()}
    assert drawn_tree() == real


def test_each_error_says_what_to_do_by_its_class_or_where_it_is_raised() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{line} raises {name} without a hint"
        for path in PACKAGE.rglob("*.py")
        for name, line in raised_without_hint(path.read_text())
        if name not in SELF_EXPLANATORY
    }
    assert found == set()


def test_what_explains_itself_has_no_hint_of_its_class() -> None:
    known = classes()
    assert {name for name in SELF_EXPLANATORY if known[name].hint} == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("raise StackError('x')", []),
        ("raise OutboxError('x')", [("OutboxError", 1)]),
        ("raise errors.OutboxError('x')", [("OutboxError", 1)]),
        ("raise OutboxError('x', hint='y')", []),
        ("raise OutboxError('x', **options)", []),
        ("raise ValueError('x')", []),
    ],
)
def test_a_missing_hint_is_found(source: str, found: list[tuple[str, int]]) -> None:
    assert list(raised_without_hint(source)) == found


@pytest.mark.parametrize(("name", "kind"), classes().items())
def test_a_hint_is_a_sentence(name: str, kind: type[CdcOutboxError]) -> None:
    assert not kind.hint or (kind.hint[0].isupper() and kind.hint[-1] in ".?"), name


def test_a_hint_given_for_one_error_does_not_change_its_class() -> None:
    assert CdcOutboxError("x", hint="do this").hint == "do this"
    assert CdcOutboxError("x").hint == ""


def test_a_traceback_shows_the_hint() -> None:
    shown = traceback.format_exception(NotInTransactionError("the connection is not in a transaction"))
    assert shown[-1] == f"{NotInTransactionError.hint}\n"
    assert traceback.format_exception(CdcOutboxError("x", hint=""))[-1] == "cdc_outbox.errors.CdcOutboxError: x\n"
