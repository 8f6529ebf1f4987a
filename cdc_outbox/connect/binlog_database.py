"""MariaDB or MySQL as a preflight asks it: everything is read once and kept as values."""

from collections.abc import Mapping
from typing import Any

from cdc_outbox.databases.binlog import BinlogPosition, Log, has_new_names, names_in, status_statement
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver, translated_for_operator
from cdc_outbox.databases.facts import COUNTED_ROWS, AccountFacts, BinlogColumn, BinlogFacts, BinlogTable
from cdc_outbox.databases.sql import load
from cdc_outbox.errors import DatabaseAccessError
from cdc_outbox.spec import Spec

_DAY_SECONDS = 86_400


class BinlogDatabase:
    """The pipeline's database on MariaDB or MySQL, through a connection in autocommit mode."""

    def __init__(self, connection: AnyConnection, driver: TransactionDriver, spec: Spec) -> None:
        self._connection = connection
        self._driver = driver
        self._spec = spec
        self._statements = load(driver.dialect, "preflight")
        self._table = {"schema": spec.outbox.schema or spec.database.name, "table": spec.outbox.name}
        self._unseen: dict[str, str] = {}

    def refuse_changes(self) -> None:
        """Let nothing that is asked from now on change anything, for all of the connection's life."""
        self._ask("read_only")

    def read_facts(self) -> BinlogFacts:
        """Read the facts, each by a statement of its own."""
        [(version, database)] = self._ask("server")
        if self._table["schema"].startswith("${"):  # only the worker knows it
            self._table["schema"] = database
        settings = {name.lower(): value for name, value, *_ in self._ask("settings")}
        is_mariadb, is_on = "mariadb" in version.lower(), settings.get("log_bin") == "ON"
        gtids = settings.get("gtid_strict_mode" if is_mariadb else "gtid_mode", "OFF")
        table = self._read_table()
        return BinlogFacts(
            is_mariadb=is_mariadb,
            database=database,
            server_id=settings.get("server_id", ""),
            log=self._read_log(version, settings) if is_on else Log(on=False, format=""),
            row_image=settings.get("binlog_row_image", "FULL"),
            is_compressed=settings.get("log_bin_compress", "OFF") == "ON",
            has_gtids=gtids == "ON",
            keep_seconds=_kept_seconds(settings),
            replicas=self._read_replicas(version) if is_on else (),
            accounts=self._read_accounts(is_mariadb=is_mariadb),
            table=table,
            rows=self._count() if table is not None else 0,
            gtid_state=settings.get("gtid_binlog_state"),
            unseen=dict(self._unseen),
        )

    def _read_log(self, version: str, settings: Mapping[str, str]) -> Log:
        written = settings.get("binlog_format", "ROW")
        status = self._try(status_statement(version), "the binlog's filters and its end", "REPLICATION CLIENT")
        files = self._try("files", "which binlogs are there", "REPLICATION CLIENT")
        if not status:
            return Log(on=True, format=written)
        file, offset, only, without, *_ = status[0]
        return Log(
            on=True,
            format=written,
            end=BinlogPosition.of(file, int(offset)),
            sizes={name: int(size) for name, size, *_ in files or ()},
            only=names_in(only),
            without=names_in(without),
        )

    def _read_replicas(self, version: str) -> list[str] | None:
        statement = "replicas" if has_new_names(version) else "slave_hosts"
        right = "REPLICATION MASTER ADMIN" if "mariadb" in version.lower() else "REPLICATION SLAVE"
        found = self._try(statement, "the server ids of replicas", right)
        return None if found is None else [str(number) for number, *_ in found]

    def _read_accounts(self, *, is_mariadb: bool) -> list[AccountFacts] | None:
        kind, user = DatabaseKind.MARIADB if is_mariadb else DatabaseKind.MYSQL, self._spec.database.user
        found = self._try(f"{kind}_accounts", "what the connector's user may", "SELECT on mysql.*", user=user)
        if found is None:
            return None
        return [
            AccountFacts(
                host=host,
                is_locked=bool(locked),
                has_roles=bool(has_roles),
                may=frozenset(right for (right,) in self._ask("privileges", user=user, host=host, **self._table)),
            )
            for host, locked, has_roles in found
        ]

    def _read_table(self) -> BinlogTable | None:
        found = self._ask("table", **self._table)
        if not found:
            return None
        [(kind, engine, is_transactional)] = found
        keys: dict[str, list[str]] = {}
        for index, column in self._ask("keys", **self._table):
            keys.setdefault(index, []).append(column)
        return BinlogTable(
            kind=kind,
            engine=engine,
            is_transactional=bool(is_transactional),
            columns={
                name: BinlogColumn(type=kind, length=length, not_null=bool(not_null), charset=charset)
                for name, kind, length, not_null, charset in self._ask("columns", **self._table)
            },
            keys=list(keys.values()),
        )

    def _count(self) -> int:
        found = self._try("written", "how many events the outbox holds", "SELECT on it", limit=COUNTED_ROWS)
        return int(found[0][0]) if found else 0

    def _try(self, statement: str, what: str, right: str, **parameters: Any) -> list[Row] | None:  # noqa: ANN401 - SQL's own variety
        """Ask what not everybody may, ``None`` where this role may not."""
        try:
            return self._ask(statement, **parameters)
        except DatabaseAccessError:
            self._unseen[what] = right
            return None

    def _ask(self, statement: str, **parameters: Any) -> list[Row]:  # noqa: ANN401 - SQL's own variety
        names = {"outbox": ".".join(map(self._driver.dialect.quote, self._table.values()))}
        sql = self._statements[statement].render(names, self._driver.style)
        with translated_for_operator():
            return self._driver.fetch(self._connection, sql, parameters)


def _kept_seconds(settings: Mapping[str, str]) -> float:
    """Return how long a binlog is kept; old servers count days, some have both and keep them alike."""
    seconds = float(settings.get("binlog_expire_logs_seconds") or 0)
    return seconds or float(settings.get("expire_logs_days") or 0) * _DAY_SECONDS
