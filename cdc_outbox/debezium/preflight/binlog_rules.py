"""Rules about MariaDB and MySQL: server, user, table and binlog. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_outbox.databases.binlog import AccountFacts, BinlogFacts, BinlogPosition, missing_gtids
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.facts import COUNTED_ROWS, ColumnFacts, TableFacts
from cdc_outbox.databases.source import check_source
from cdc_outbox.debezium.connector_offsets import own_offset
from cdc_outbox.debezium.options.capture_options import BINLOG_BUFFER_EVENTS
from cdc_outbox.debezium.preflight.findings import MAKE_TABLE, UUID_LENGTH, another_database, error, note, warning
from cdc_outbox.finding import Finding
from cdc_outbox.formats.attributes import ATTRIBUTES, AttributeKind
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.redaction import counted, either
from cdc_outbox.spec import Spec

_CHARACTERS = ("varchar", "char", "text", "tinytext", "mediumtext", "longtext")
_NAMES = (*_CHARACTERS, "enum")
_TYPES: Mapping[AttributeKind, tuple[str, ...]] = {
    AttributeKind.ID: _CHARACTERS,
    AttributeKind.NAME: _NAMES,
    AttributeKind.KEY: _CHARACTERS,
    AttributeKind.LABEL: _CHARACTERS,
    AttributeKind.NUMBER: ("bigint", "int"),
    AttributeKind.TIME: ("datetime",),
}
_PAYLOAD_TYPES = {
    PayloadType.JSON: ("json", *_CHARACTERS),
    PayloadType.BYTES: ("longblob", "mediumblob", "blob", "tinyblob", "varbinary"),
}
"""Types that the converters and the EventRouter support, by column."""
_REASONS = {
    "timestamp": "it reaches the router as text, and the task fails on the first row",
    "binary": "its bytes reach the headers in base64",
    "varbinary": "its bytes reach the headers in base64",
}

_SHORT_SECONDS = 3 * 86_400
"""A connector that fails on a Friday evening may not be noticed until Monday."""
_RIGHTS = ("replication slave", "replication client", "select")


def check_binlog_database(spec: Spec, facts: BinlogFacts) -> tuple[Finding, ...]:
    """Return the findings about a database, in the order in which to fix them."""
    return (
        *another_database(facts.database, spec.database.name),
        *_check_log(spec, facts),
        *_check_readers(spec, facts),
        *_check_user(spec, facts.accounts),
        *_check_table(spec, facts.table),
        *check_source(spec.outbox, spec.first_source, facts.source, spec.database.kind.dialect),
        *(
            note("DB602", what, "not checked: this role lacks a privilege.", f"The check needs {right}.")
            for what, right in facts.unseen.items()
        ),
    )


def check_stored(spec: Spec, facts: BinlogFacts, offsets: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield whether the connector continues where it stopped, or starts after rows that it has not read.

    Args:
        offsets: As Connect returns them; empty if it has none, or was not queried.
    """
    stored = own_offset(offsets, topic_prefix=spec.topic_prefix)
    if stored is None:
        yield from _check_earlier_rows(spec, facts)
        return
    remedy = "Correct the DSN; or stop the connector, reset its offsets, and publish the missing events by other means."
    unknown = missing_gtids(str(stored.get("gtids") or ""), facts.gtid_state) if facts.gtid_state is not None else []
    position = BinlogPosition.of(str(stored.get("file", "")), int(stored.get("pos") or 0))
    size = None if position is None else facts.log.sizes.get(position.file)
    if unknown:
        message = (
            f"Connect's offset contains {', '.join(unknown)}, and the server's binlog ends at "
            f"{facts.gtid_state or 'no GTID'}: the server was restored to an older state, or is another one."
        )
        yield error("DB524", spec.name, message, remedy)
    elif position is None or not facts.log.sizes:
        return
    elif size is None:
        message = f"Connect's offset is {position}, and the server has purged this binlog file."
        yield error("DB521", spec.name, message, remedy)
    elif position.offset > size:
        message = (
            f"Connect's offset is {position}, and this binlog file ends at {size}: it is another file of the same name."
        )
        yield error("DB522", spec.name, message, remedy)


def check_buffer(spec: Spec, config: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether the connector publishes what was rolled back on MariaDB, or loses the end of a long transaction."""
    size = config.get("binlog.buffer.size", "0")[:9]
    is_small = size.isdecimal() and int(size) < BINLOG_BUFFER_EVENTS
    if is_small and spec.database.kind is DatabaseKind.MARIADB:
        harm = "loses the end of long transactions" if int(size) else "publishes some rolled back transactions"
        message = f"with binlog.buffer.size={size} the connector {harm}."
        yield warning("DB130", spec.name, message, "Send Connect the configuration that `cdc-outbox render` prints.")


def _check_earlier_rows(spec: Spec, facts: BinlogFacts) -> Iterator[Finding]:
    if not facts.rows or not spec.outbox.mode.keeps_rows:
        return
    count = f"{'at least ' * (facts.rows >= COUNTED_ROWS)}{counted(facts.rows, 'event')}"
    message = f"the table contains {count}; those from before the connector's first start are not published."
    remedy = "Start the connector before the writers; publish the existing events by other means."
    yield warning("DB523", _name(spec), message, remedy)


def _check_log(spec: Spec, facts: BinlogFacts) -> Iterator[Finding]:
    log = facts.log
    if not log.on:
        remedy = "Set log_bin in the server's configuration, and restart the server."
        yield error("DB121", "log_bin", "the server writes no binlog.", remedy)
        return
    if log.format != "ROW":
        message = f"binlog_format is {log.format}, in which a connector does not find all rows."
        yield error(
            "DB122", "binlog_format", message, "set global binlog_format = ROW, and in the server's configuration."
        )
    if facts.row_image != "FULL":
        message = f"binlog_row_image is {facts.row_image}, with which columns may be missing."
        remedy = "set global binlog_row_image = FULL, and in the server's configuration."
        yield error("DB123", "binlog_row_image", message, remedy)
    database = spec.outbox.schema or facts.database
    if log.leaves_out(database):
        filters = "binlog_do_db" if log.only else "binlog_ignore_db"
        message = f"{filters} excludes changes of the database {database!r} from the binlog."
        yield error(
            "DB124", filters, message, f"Change {filters} in the server's configuration, and restart the server."
        )
    if facts.is_compressed:
        message = "MariaDB compresses long events in its own format, and the connector skips them."
        remedy = "set global log_bin_compress = OFF, and in the server's configuration."
        yield error("DB129", "log_bin_compress", message, remedy)
    if 0 < facts.keep_seconds < _SHORT_SECONDS:
        message = f"the server purges binlogs after {facts.keep_seconds / 3600:,.1f} h, read or unread."
        remedy = "set global binlog_expire_logs_seconds = 2592000, and in the server's configuration."
        yield warning("DB127", "binlog_expire_logs_seconds", message, remedy)
    if not facts.has_gtids:
        setting = "gtid_strict_mode" if facts.is_mariadb else "gtid_mode"
        message = f"{setting} is not ON: after a failover an offset may not be valid on the other server."
        yield note("DB128", setting, message, f"Set {setting} = ON on every server that may become the primary.")


def _check_readers(spec: Spec, facts: BinlogFacts) -> Iterator[Finding]:
    number, remedy = spec.database.server_id, "Choose another id: database.server_id."
    if number == facts.server_id:
        yield error("DB125", number, f"the server itself has the server id {number}.", remedy)
    # The connector does not report its server id, so a replica that reports this id is another one.
    elif number in (facts.replicas or ()):
        yield error("DB126", number, f"a replica of the server has the server id {number}.", remedy)


def _check_user(spec: Spec, accounts: Sequence[AccountFacts] | None) -> Iterator[Finding]:
    user = spec.database.user
    if accounts is None or user.startswith("${"):
        return
    grants = "Run the statements that `cdc-outbox init SPEC --grants` prints."
    if not accounts:
        yield error("DB201", user, f"the user {user!r} does not exist.", grants)
        return
    # The worker's host is not known, so one correct account is enough.
    found = [list(_check_account(user, account)) for account in accounts]
    yield from min(found, key=len)


def _check_account(user: str, account: AccountFacts) -> Iterator[Finding]:
    account_name = "@".join(Dialect.MYSQL.literal(part) for part in (user, account.host))
    if account.is_locked:
        remedy = f"alter user {account_name} identified by '…' account unlock"
        yield error("DB207", user, f"{account_name} is locked, so the connector cannot log in.", remedy)
    missing = [right for right in _RIGHTS if right not in account.may]
    if not missing:
        return
    if account.has_roles:
        message = f"{account_name} itself lacks {', '.join(missing)}, and the privileges of its roles were not checked."
        yield note("DB602", user, message, "Check `show grants`, and the default role.")
        return
    message = f"{account_name} lacks {', '.join(missing)}."
    yield error("DB208", user, message, "Run the statements that `cdc-outbox init SPEC --grants` prints.")


def _check_table(spec: Spec, table: TableFacts | None) -> Iterator[Finding]:
    name, quoted = _name(spec), spec.outbox.table_in(Dialect.MYSQL).quoted
    if table is None:
        yield error("DB301", name, "the outbox table does not exist, or this role cannot see it.", MAKE_TABLE)
        return
    if table.kind != "BASE TABLE":
        yield error("DB305", name, "the relation is a view.", "Name the table itself in the spec: outbox.table.")
        return
    if not table.is_transactional:
        message = f"the storage engine is {table.settings.get('engine') or 'none'}, which has no transactions."
        yield error("DB361", name, message, f"alter table {quoted} engine = InnoDB")
    for column, types in _wanted(spec).items():
        facts = table.columns.get(column)
        if facts is None:
            yield error("DB303", f"{name}.{column}", "the column does not exist.", MAKE_TABLE)
        elif facts.type not in types:
            reason = _REASONS.get(facts.type, "")
            message = f"the type is {facts.type}{f': {reason}' if reason else ''}. It must be {either(types)}."
            remedy = f"alter table {quoted} modify {Dialect.MYSQL.quote(column)} {_example(spec, column, types)}"
            yield error("DB304", f"{name}.{column}", message, remedy)
        else:
            yield from _check_column(spec, column, facts)
    columns = spec.outbox.columns
    if (columns.id,) not in table.keys:
        message = f"event ids may repeat: there is no unique index on {columns.id} alone."
        yield warning("DB316", name, message, f"alter table {quoted} add unique ({Dialect.MYSQL.quote(columns.id)})")


def _check_column(spec: Spec, column: str, facts: ColumnFacts) -> Iterator[Finding]:
    location, quoted = f"{_name(spec)}.{column}", spec.outbox.table_in(Dialect.MYSQL).quoted
    columns = spec.outbox.columns
    needed = {
        columns.id: UUID_LENGTH,
        columns.aggregate_type: max(map(len, spec.contract.aggregates), default=0),
        columns.source: len(spec.first_source),
    }.get(column, 0)
    if facts.length is not None and facts.type != "enum" and facts.length < needed:
        report = warning if spec.outbox.adopted else error
        message = f"the column has {facts.length} characters, and values have up to {needed}."
        remedy = f"alter table {quoted} modify {Dialect.MYSQL.quote(column)} varchar({needed}) not null"
        yield report("DB314", location, message, remedy)
    if not facts.not_null and column in {columns.id, columns.aggregate_type, columns.aggregate_id}:
        message = "the column is nullable: the router fails on a null, or a consumer fails on its message."
        remedy = f"alter table {quoted} modify {Dialect.MYSQL.quote(column)} … not null"
        yield warning("DB315", location, message, remedy)
    free = {columns.aggregate_id, columns.payload, *spec.outbox.header_columns}
    if column in free and facts.charset and facts.charset != "utf8mb4":
        message = f"the character set is {facts.charset}, which lacks characters."
        remedy = f"alter table {quoted} convert to character set utf8mb4 collate utf8mb4_bin"
        yield warning("DB362", location, message, remedy)


def _wanted(spec: Spec) -> Mapping[str, tuple[str, ...]]:
    outbox = spec.outbox
    types = {**_TYPES, AttributeKind.PAYLOAD: _PAYLOAD_TYPES[outbox.payload_type.stored]}
    wanted = {column: types[ATTRIBUTES[role].kind] for role, column in outbox.columns.names().items()}
    return {**wanted, **dict.fromkeys(outbox.header_columns, _CHARACTERS)}


def _example(spec: Spec, column: str, types: tuple[str, ...]) -> str:
    """Return a supported type of a column, in the syntax of a statement."""
    columns = spec.outbox.columns
    if column == columns.id:
        return f"char({UUID_LENGTH}) not null"
    if column == columns.created_at:
        return "datetime(6) not null default (utc_timestamp(6))"
    return f"{types[0]}(249)" if types[0] == "varchar" else types[0]


def _name(spec: Spec) -> str:
    return str(spec.outbox.table_in(Dialect.MYSQL))
