"""Where tests and their helpers live: a change of one test module reaches no other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = [path for folder in ("tests", "fuzz", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]
_IMPORT = re.compile(r"^\s*(?:from|import) (tests\.[\w.]*\btest_\w+)", re.MULTILINE)
_RECONFIGURES = re.compile(r"alter (?:role connector\b|system)|set (?:@@)?global\b", re.IGNORECASE)
_OWN_SERVER = re.compile(
    r"\.add_(?:postgres|mariadb)\(|\bmake_(?:postgres|mariadb)\(|\bexclusive_(?:stack|mariadb)\b|\bOwnServer\.started\("
)
_TESTS = re.compile(r"test_\w+|\w+_contract|conftest|__init__")


def imports_of_tests(text: str) -> list[str]:
    return _IMPORT.findall(text)


def test_no_module_imports_a_test_module() -> None:
    found = {path.relative_to(ROOT): imports_of_tests(path.read_text()) for path in MODULES}
    assert {path: names for path, names in found.items() if names} == {}


def test_an_import_of_a_test_module_is_seen() -> None:
    assert imports_of_tests("from tests.unit.test_ordering import event\n") == ["tests.unit.test_ordering"]


@pytest.mark.parametrize("folder", ["unit", "contract", "integration", "acceptance", "attacks", "vendor"])
def test_a_folder_of_tests_holds_tests_and_contracts_alone(folder: str) -> None:
    modules = [path.stem for path in (ROOT / "tests" / folder).rglob("*.py")]
    assert [name for name in modules if not _TESTS.fullmatch(name)] == []


def reconfigures_a_shared_server(text: str) -> bool:
    return bool(_RECONFIGURES.search(text)) and not _OWN_SERVER.search(text)


def test_only_exclusive_tests_reconfigure_a_server_that_they_did_not_start() -> None:
    exclusive = ROOT / "tests" / "integration" / "exclusive"
    others = [path for path in (ROOT / "tests").rglob("*.py") if exclusive not in path.parents]
    found = [path for path in others if reconfigures_a_shared_server(path.read_text())]
    assert [path for path in found if path != Path(__file__)] == []


@pytest.mark.parametrize(
    "statement",
    ["ALTER ROLE connector NOLOGIN", "alter system set wal_level = 'replica'", "set global general_log = on"],
)
def test_a_statement_that_reconfigures_a_shared_server_is_seen(statement: str) -> None:
    assert reconfigures_a_shared_server(f'cursor.execute("{statement}")\n')
    assert not reconfigures_a_shared_server(f'outbox_stack.add_postgres(15)\ncursor.execute("{statement}")\n')


_OWN_THREADS = re.compile(r"\b(?:threading\.Thread|Thread|threading\.Timer|Timer|ThreadPoolExecutor)\(")
_STARTS_THREADS = {
    "tests/support/threads.py": "Threads starts all others",
    "tests/faults/commander.py": "the process under test has it, and ends with it",
}


def test_threads_of_tests_are_started_by_what_ends_them_and_raises_their_errors() -> None:
    """See :class:`tests.support.threads.Threads`."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    found = {str(path.relative_to(ROOT)) for path in paths if _OWN_THREADS.search(path.read_text())}
    assert found == _STARTS_THREADS.keys()
