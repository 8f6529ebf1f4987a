"""MariaDB as a part of the stack, for those who ask for it."""

import os
import secrets
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cdc_outbox.errors import StackError
from cdc_outbox.testing.folder import HOST
from cdc_outbox.testing.process import (
    Server,
    ServerCommand,
    make_data_folder,
    make_part_folder,
    run_to_end,
    unprivileged_user,
)
from cdc_outbox.testing.settings import settings_file

if TYPE_CHECKING:
    from pymysql.connections import Connection

_ANSWER_SECONDS, _WORK_SECONDS = 2, 60
"""A server that is up answers soon; what it is asked to do may take its time on a busy machine."""

_SERVER_FOLDERS = (Path("/usr/sbin"), Path("/usr/local/sbin"))
"""Where packages put the server; not every user's PATH has these."""

_SCRIPT_FOLDERS = (Path("/usr/share/mysql"), Path("/usr/share/mariadb"))
_SCRIPTS = ("system_tables", "performance_tables", "system_tables_data")
"""What makes a new server's own tables, in this order. ``mariadb-install-db`` would run the same and more, but takes
longer, and needs programs of further packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MariaDbDsn:
    """The address of a database: MariaDB's drivers have no common connection string, but these common names."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str

    def parameters(self) -> dict[str, Any]:
        """Return keyword arguments for ``pymysql.connect`` and ``MySQLdb.connect``."""
        # Said, because a driver's default may be older than utf8mb4, and the server believes its clients.
        return {**asdict(self), "charset": "utf8mb4"}

    def url(self, scheme: str = "mysql+pymysql") -> str:
        """Return the URL for SQLAlchemy."""
        return f"{self.command_dsn().replace('mysql', scheme, 1)}?charset=utf8mb4"

    def command_dsn(self) -> str:
        """Return the value for the option ``--dsn`` of the commands."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"mysql://{login}@{self.host}:{self.port}/{quote(self.database, safe='')}"


class MariaDb(Server):
    """A MariaDB server of the stack.

    Args:
        password: The superuser's; it is new for each stack, and asked for.
    """

    def __init__(self, folder: Path, command: ServerCommand, *, port: int, password: str) -> None:
        super().__init__(folder, command)
        self.port = port
        self.password = password

    def dsn(self, database: str = "mysql", *, user: str = "root", password: str | None = None) -> MariaDbDsn:
        """Return the address of a database, by default for the superuser."""
        return MariaDbDsn(host=HOST, port=self.port, user=user, password=password or self.password, database=database)

    def create_database(self, name: str) -> MariaDbDsn:
        """Create a database and return its address."""
        with closing(self._connect(_WORK_SECONDS)) as connection, connection.cursor() as cursor:
            # Without the doubling a name could say more than a name.
            cursor.execute(f"create database `{name.replace('`', '``')}`")
        return self.dsn(name)

    def answers(self) -> bool:
        """Return whether the server takes connections."""
        import pymysql  # noqa: PLC0415 - see _connect

        try:
            self._connect(_ANSWER_SECONDS).close()
        except pymysql.Error:
            return False
        return True

    def _connect(self, seconds: int) -> "Connection[Any]":
        import pymysql  # noqa: PLC0415 - a stack without MariaDB needs no driver for it

        return pymysql.connect(
            **self.dsn().parameters(),
            connect_timeout=seconds,
            read_timeout=seconds,
            autocommit=True,
            # The server has no certificate; the driver would read the system's for each connection.
            ssl_disabled=True,
        )


def make_mariadb(folder: Path, port: int) -> MariaDb:
    """Set up a new data folder and return its server, not started yet.

    Raises:
        StackError: The server or its driver is not installed.
    """
    server, scripts = _find_server(), _find_scripts()
    if find_spec("pymysql") is None:
        raise StackError(
            "MariaDB in the stack needs the package pymysql",
            hint="Install it with `pip install 'cdc-outbox[testing,mysql]'`.",
        )
    user = unprivileged_user("MariaDB", "mysql")
    password = secrets.token_urlsafe(12)
    data, temporary, settings = folder / "data", folder / "tmp", folder / "mariadb.cnf"
    make_part_folder(folder, user)
    for path in (data, temporary):
        make_data_folder(path, user)
    shutil.copyfile(settings_file("mariadb.cnf"), settings)
    settings.chmod(0o644)
    arguments = [
        server,
        # It must come first, and keeps the machine's own settings out.
        f"--defaults-file={settings}",
        f"--datadir={data}",
        # Else what a killed server leaves of its temporary tables would stay outside.
        f"--tmpdir={temporary}",
    ]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    bootstrap = ServerCommand(
        arguments=[*arguments, "--bootstrap", "--skip-log-bin"], environment=environment, user=user
    )
    run_to_end(bootstrap, folder, "setting up MariaDB", text=_own_tables(scripts, password))
    command = ServerCommand(
        arguments=[*arguments, f"--bind-address={HOST}", f"--port={port}"], environment=environment, user=user
    )
    return MariaDb(folder, command, port=port, password=password)


def _own_tables(scripts: list[Path], password: str) -> str:
    """Return the statements that make the server's own tables, and leave one user who may log in."""
    return "\n".join(
        [
            "create database mysql;",
            "use mysql;",
            # Or the superuser could log in through the socket alone.
            "set @auth_root_socket = null;",
            *(script.read_text() for script in scripts),
            f"set @host = '{HOST}';",
            "delete from global_priv where User = 'root' and Host <> @host;",
            "delete from proxies_priv where Host <> @host;",
            # Accounts are read from the tables only now, and changed only by statements.
            "flush privileges;",
            f"alter user root@'{HOST}' identified by '{password}';\n",
        ]
    )


def _find_server() -> str:
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, _SERVER_FOLDERS)])
    server = shutil.which("mariadbd", path=folders)
    if server is None:
        raise _not_installed("no `mariadbd` on the PATH")
    return server


def _find_scripts() -> list[Path]:
    found = []
    for name in _SCRIPTS:
        # MariaDB 10 calls them mysql_…, MariaDB 11 mariadb_….
        paths = [path for folder in _SCRIPT_FOLDERS for path in folder.glob(f"m*_{name}.sql")]
        if not paths:
            raise _not_installed(f"no script for its {name.replace('_', ' ')}")
        found.append(paths[0])
    return found


def _not_installed(missing: str) -> StackError:
    return StackError(
        f"the MariaDB server is not installed ({missing}); Debian's package is mariadb-server-core",
        hint="On Debian or Ubuntu `apt-get install mariadb-server-core`.",
    )
