"""How long tests wait: by the load of the machine, and never for a number that somebody tuned."""

import ast
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.patience import SECONDS, patience
from tests.support.rig import eventually

ROOT = Path(__file__).parents[2]
_LAST = frozenset({"at_most", "flush", "join", "result", "select", "timeout", "wait", "wait_for"})
"""What waits for as long as its last argument says; what waits for its ``timeout`` may have any name."""
_ELAPSED = re.compile(r"\b(?:monotonic|perf_counter|time)\(\) - ")
_EXCEPTIONS = {
    'eventually(lambda: self.ledger.present <= self.published().keys(), "the events", seconds=3)': (
        "a history goes on where its connector has stopped for good"
    ),
    "assert time.monotonic() - began < patience(10)": (
        "what the command would wait for if it waited takes 10 s on any machine"
    ),
}
"""Lines whose number is no patience, and why."""
_INSTANT = float("1e-3")


def tuned_waits(code: str) -> list[int]:
    """Return the lines that wait for a number of seconds, at least one, or allow it, instead of :func:`patience`.

    A shorter wait is a pause, and so is one that a loop repeats until it is over. SQLite's time-out is a setting.
    """
    tree = ast.parse(code)
    numbers = dict(_numbers(tree))
    pauses = {id(node) for loop in ast.walk(tree) if isinstance(loop, ast.While) for node in ast.walk(loop.test)}
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Call) and id(node) not in pauses and _waits(node, numbers))
        or (isinstance(node, ast.BinOp) and _is_deadline(node, numbers))
        or (isinstance(node, ast.Compare) and _bounds_elapsed(node, numbers))
    )


def _waits(call: ast.Call, numbers: Mapping[str, float]) -> bool:
    called = ast.unparse(call.func)
    name, options = called.rpartition(".")[2], {each.arg: each.value for each in call.keywords}
    if name in {"eventually", "patience"}:
        return 0 < _seconds(options.get("seconds", call.args[0] if call.args else None), numbers) < SECONDS
    last = call.args[-1] if call.args and name in _LAST else None
    return called != "sqlite3.connect" and max(_seconds(each, numbers) for each in (options.get("timeout"), last)) >= 1


def _is_deadline(sum_: ast.BinOp, numbers: Mapping[str, float]) -> bool:
    return ast.unparse(sum_.left) == "time.monotonic()" and _seconds(sum_.right, numbers) >= 1


def _bounds_elapsed(comparison: ast.Compare, numbers: Mapping[str, float]) -> bool:
    is_bounded = isinstance(comparison.ops[-1], ast.Lt | ast.LtE) and _seconds(comparison.comparators[-1], numbers) >= 1
    return is_bounded and bool(_ELAPSED.search(ast.unparse(comparison)))


def _seconds(node: ast.expr | None, numbers: Mapping[str, float]) -> float:
    """Return what an expression is, or 0 if that is not written there."""
    match node:
        case ast.Constant(float() | int() as value):
            return value
        case ast.Name(name):
            return numbers.get(name, 0)
        case ast.BinOp(left, ast.Mult(), right):
            return _seconds(left, numbers) * _seconds(right, numbers)
        case ast.BinOp(left, ast.Add() | ast.Sub(), right):
            return max(_seconds(left, numbers), _seconds(right, numbers))
    return 0


def _numbers(tree: ast.Module) -> Iterator[tuple[str, float]]:
    """Return the module's constants that are numbers."""
    for node in tree.body:
        match node:
            case ast.Assign([ast.Name(name)], ast.Constant(float() | int() as value)):
                yield name, value
            case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
                for pair in zip(names, values, strict=True):
                    match pair:
                        case ast.Name(name), ast.Constant(float() | int() as value):
                            yield name, value


def test_no_test_waits_for_a_tuned_number_of_seconds() -> None:
    paths = [path.relative_to(ROOT) for path in sorted((ROOT / "tests").rglob("*.py"))]
    found = [(path, number) for path in paths for number in tuned_waits((ROOT / path).read_text())]
    lines = {f"{path}:{number}": (ROOT / path).read_text().splitlines()[number - 1].strip() for path, number in found}
    assert {at: line for at, line in lines.items() if line not in _EXCEPTIONS} == {}
    assert _EXCEPTIONS.keys() <= set(lines.values()), "exceptions that are none any more"


@pytest.mark.parametrize(
    "line",
    [
        "process.wait(20)",
        "process.communicate(timeout=20)",
        "subprocess.run(command, timeout=60)",
        "assert inside.wait(20)",
        "assert changed.wait_for(lambda: word in said, LIMIT)",
        "thread.join(30.0)",
        "future.result(LIMIT)",
        "producer.flush(10)",
        "Barrier(3, timeout=60)",
        "asyncio.timeout(LIMIT)",
        "requests.get(url, timeout=10)",
        "until = time.monotonic() + 10",
        "process.wait(2 * LIMIT)",
        "process.wait(session + LIMIT)",
        "assert time.monotonic() - began < 10",
        "assert 2 <= time.monotonic() - began < LIMIT",
        "eventually(holds, 'it', seconds=3)",
        "process.wait(patience(10))",
    ],
)
def test_a_tuned_wait_is_seen(line: str) -> None:
    assert tuned_waits(f"LIMIT = 30\n{line}\n") == [2]


@pytest.mark.parametrize(
    "line",
    [
        "process.wait(patience())",
        "process.communicate(timeout=patience(120))",
        "threading.Event().wait(0.2)",
        "while not over.wait(1): pass",
        "', '.join(names)",
        "service.consume(20)",
        "sqlite3.connect(path, timeout=60)",
        "until = time.monotonic() + patience()",
        "eventually(holds, 'it')",
        "eventually(holds, 'it', seconds=90)",
        "Timings(timeout_seconds=2)",
        "wait_for(clock, UP)",
        "assert time.monotonic() - began > 2",
        "threading.Event().wait(limit * 2)",
    ],
)
def test_patience_pauses_and_settings_are_no_tuned_waits(line: str) -> None:
    assert tuned_waits(line) == []


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The load of the last minute, and how many processes run now."""
    loads = [0.0, 0.0]
    monkeypatch.setattr(os, "getloadavg", lambda: (loads[0], 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(Path, "read_text", lambda _path: f"{loads[0]} 0.00 0.00 {loads[1] + 1:.0f}/300 4711\n")
    return loads


def test_a_test_waits_for_longer_on_a_busy_machine_and_never_shorter_than_it_says(load: list[float]) -> None:
    assert (patience(), patience(120)) == (SECONDS, 120)
    load[:] = 12, 0
    assert (patience(), patience(120)) == (7 * SECONDS, 7 * 120), "12 other processes on 2 CPUs"
    load[:] = 0, 12
    assert patience() == 7 * SECONDS, "as many since a moment ago"


def test_a_machine_that_becomes_busy_extends_a_wait_that_has_begun(load: list[float]) -> None:
    """And one that becomes idle again does not shorten it."""
    asked = iter(range(100))

    def holds() -> bool:
        at = next(asked)
        load[0] = 10**6 if at == 1 else 0
        return at == 4

    eventually(holds, "a while", seconds=_INSTANT)


@pytest.mark.usefixtures("load")
def test_a_condition_that_never_holds_fails_with_what_was_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"waited 0 s in vain for the end"):
        eventually(lambda: False, "the end", seconds=_INSTANT)
    with pytest.raises(AssertionError, match=r"in vain for what is made at last"):
        eventually(lambda: False, lambda: "what is made at last", seconds=_INSTANT)
