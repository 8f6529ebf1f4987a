"""A class that acts takes at most seven parameters: with more, a value object is missing."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "cdc_outbox"
MOST = 7


def parameters_of(made: ast.ClassDef) -> list[str]:
    """Return what a class's own constructor takes; of a dataclass, the fields that it sets.

    ``**options`` may only pass on what a base takes, which is counted there.
    """
    for node in made.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            taken = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            return taken[1:] + [f"**{node.args.kwarg.arg}"] * MOST if node.args.kwarg and not made.bases else taken[1:]
    return [ast.unparse(node.target) for node in made.body if isinstance(node, ast.AnnAssign) and _is_set(node)]


def _is_set(node: ast.AnnAssign) -> bool:
    """Tell whether a field of a dataclass is a parameter of its constructor."""
    made = "" if node.value is None else ast.unparse(node.value)
    return "init=False" not in made and not ast.unparse(node.annotation).startswith("ClassVar")


def acts(made: ast.ClassDef) -> bool:
    """Tell whether a class is more than a value.

    Frozen dataclasses and named tuples are values, whatever they compute from their fields, and so is a dataclass
    without methods. A protocol is made by nobody.
    """
    written = [ast.unparse(each) for each in (*made.decorator_list, *made.bases)]
    if any(each.startswith("dataclass") and "frozen=True" in each for each in written):
        return False
    if "NamedTuple" in written or "Protocol" in written:
        return False
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in made.body)


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield f"{path.relative_to(PACKAGE)}: {node.name}", node


def test_a_class_that_acts_takes_at_most_seven_parameters() -> None:
    found = {name: parameters_of(made) for name, made in classes() if acts(made)}
    assert len(found) > 100
    assert {name: taken for name, taken in found.items() if len(taken) > MOST} == {}


FIELDS = "".join(f"    field_{number}: int\n" for number in range(MOST))
EIGHTH = "    eighth: int = 0\n"
METHOD = "    def act(self): ..."


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("class Acts:\n    def __init__(self, a, b, c, d, *, e, f, g): ...", False),
        ("class Acts:\n    def __init__(self, a, b, c, d, *, e, f, g, h=None): ...", True),
        ("class Acts:\n    def __init__(self, a, **options): ...", True),
        ("class Acts(Base):\n    def __init__(self, a, **options): ...", False),
        (f"@dataclass\nclass Acts:\n{FIELDS}{EIGHTH}{METHOD}", True),
        (f"@dataclass\nclass Acts:\n{FIELDS}    eighth: int = field(default=0, init=False)\n{METHOD}", False),
        (f"@dataclass(frozen=True)\nclass Value:\n{FIELDS}{EIGHTH}{METHOD}", False),
        (f"@dataclass\nclass Value:\n{FIELDS}{EIGHTH}", False),
    ],
)
def test_what_is_counted(text: str, *, is_refused: bool) -> None:
    [made] = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))
    assert (acts(made) and len(parameters_of(made)) > MOST) is is_refused
