"""MariaDB or MySQL as a preflight asks it: everything is read once and kept as values."""

from collections.abc import Mapping
from dataclasses import replace

from cdc_outbox.databases.binlog import AccountFacts, BinlogFacts, Log, has_new_names, read_log
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.drivers import AnyConnection, Row, TransactionDriver, translated_for_operator
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.source import read_source
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
        self._statements = {**load(driver.dialect, "preflight"), **load(driver.dialect, "binlog")}
        self._catalog = Catalog(connection, driver)
        self._outbox = replace(spec.outbox.table_in(driver.dialect), schema=spec.outbox.schema or spec.database.name)
        self._unseen: dict[str, str] = {}

    def refuse_changes(self) -> None:
        """Let nothing that is asked from now on change anything, for all of the connection's life."""
        self._ask("read_only")

    def read_facts(self) -> BinlogFacts:
        """Read the facts, each by a statement of its own."""
        [(version, database)] = self._ask("server")
        if str(self._outbox.schema).startswith("${"):  # only the worker knows it
            self._outbox = replace(self._outbox, schema=database)
        settings = {name.lower(): value for name, value, *_ in self._ask("settings")}
        is_mariadb, is_on = "mariadb" in version.lower(), settings.get("log_bin") == "ON"
        gtids = settings.get("gtid_strict_mode" if is_mariadb else "gtid_mode", "OFF")
        with translated_for_operator():
            table = self._catalog.find_table(self._outbox)
            source = read_source(self._spec.outbox, self._catalog)
        log = Log(on=False, format="")
        if is_on:
            log = read_log(self._try_log, version, settings.get("binlog_format", "ROW"))
        return BinlogFacts(
            is_mariadb=is_mariadb,
            database=database,
            server_id=settings.get("server_id", ""),
            log=log,
            row_image=settings.get("binlog_row_image", "FULL"),
            is_compressed=settings.get("log_bin_compress", "OFF") == "ON",
            has_gtids=gtids == "ON",
            keep_seconds=_kept_seconds(settings),
            replicas=self._read_replicas(version) if is_on else (),
            accounts=self._read_accounts(is_mariadb=is_mariadb),
            table=table,
            rows=self._count() if table is not None else 0,
            gtid_state=settings.get("gtid_binlog_state"),
            source=source,
            unseen=dict(self._unseen),
        )

    def _read_replicas(self, version: str) -> list[str] | None:
        statement = "replicas" if has_new_names(version) else "slave_hosts"
        right = "REPLICATION MASTER ADMIN" if "mariadb" in version.lower() else "REPLICATION SLAVE"
        found = self._try(statement, "the server ids of replicas", right)
        return None if found is None else [str(number) for number, *_ in found]

    def _read_accounts(self, *, is_mariadb: bool) -> list[AccountFacts] | None:
        kind, user = DatabaseKind.MARIADB if is_mariadb else DatabaseKind.MYSQL, self._spec.database.user
        found = self._try(f"{kind}_accounts", "the privileges of the connector's user", "SELECT on mysql.*", user=user)
        if found is None:
            return None
        return [
            AccountFacts(
                host=host,
                is_locked=bool(locked),
                has_roles=bool(has_roles),
                may=self._catalog.find_account_rights(user, host, self._outbox),
            )
            for host, locked, has_roles in found
        ]

    def _count(self) -> int:
        try:
            with translated_for_operator():
                return self._catalog.count_rows(self._outbox)
        except DatabaseAccessError:
            self._unseen["the number of events in the outbox"] = "SELECT on it"
            return 0

    def _try_log(self, statement: str) -> list[Row] | None:
        what = "the list of binlogs" if statement == "files" else "the binlog's filters and its end"
        return self._try(statement, what, "REPLICATION CLIENT")

    def _try(self, statement: str, what: str, right: str, **parameters: object) -> list[Row] | None:
        """Run a query that not every role may run; return ``None`` where this role may not."""
        try:
            return self._ask(statement, **parameters)
        except DatabaseAccessError:
            self._unseen[what] = right
            return None

    def _ask(self, statement: str, **parameters: object) -> list[Row]:
        sql = self._statements[statement].render({}, self._driver.style)
        with translated_for_operator():
            return self._driver.fetch(self._connection, sql, parameters)


def _kept_seconds(settings: Mapping[str, str]) -> float:
    """Return how long a binlog is kept; old servers count days, some have both and keep them alike."""
    seconds = float(settings.get("binlog_expire_logs_seconds") or 0)
    return seconds or float(settings.get("expire_logs_days") or 0) * _DAY_SECONDS
