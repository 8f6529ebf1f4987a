"""The tree in the docstring is the tree in the code."""

import inspect
import traceback

from cdc_outbox import errors
from cdc_outbox.errors import CdcOutboxError, NotInTransactionError


def drawn_tree() -> dict[str, tuple[str, bool]]:
    """Read the docstring's drawing: error → (parent, retryable)."""
    assert errors.__doc__
    tree: dict[str, tuple[str, bool]] = {}
    path: list[str] = []
    for line in errors.__doc__.splitlines():
        stripped = line.lstrip(" │├└─")
        name = stripped.split(" ")[0]
        if not (line.startswith("    ") and name.endswith("Error")):
            continue
        depth = (len(line) - len(stripped)) // 4 - 1
        path[depth:] = [name]
        tree[name] = (path[depth - 1] if depth else "Exception", "retryable" in stripped)
    return tree


def test_the_drawn_tree_is_the_real_one() -> None:
    classes = {
        name: kind
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, CdcOutboxError) and kind.__module__ == errors.__name__
    }
    real = {name: (kind.__bases__[0].__name__, kind.retryable) for name, kind in classes.items()}
    assert drawn_tree() == real


def test_a_hint_given_for_one_error_does_not_change_its_class() -> None:
    assert CdcOutboxError("x", hint="do this").hint == "do this"
    assert CdcOutboxError("x").hint == ""


def test_a_traceback_shows_the_hint() -> None:
    shown = traceback.format_exception(NotInTransactionError("the connection is not in a transaction"))
    assert shown[-1] == f"{NotInTransactionError.hint}\n"
    assert traceback.format_exception(CdcOutboxError("x", hint=""))[-1] == "cdc_outbox.errors.CdcOutboxError: x\n"
