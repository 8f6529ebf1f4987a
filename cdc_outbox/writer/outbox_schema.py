"""The outbox's tables, publication and roles: how they are made and brought up to date."""

from collections.abc import Callable, Collection, Iterator, Mapping

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.facts import ColumnFacts
from cdc_outbox.databases.migrations import Component, Migration, load_migrations
from cdc_outbox.databases.quoting import literal, quote
from cdc_outbox.databases.roles import Privilege, Role
from cdc_outbox.databases.sql import Statement, load
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.errors import ConfigError
from cdc_outbox.formats.attributes import ATTRIBUTES, AttributeKind
from cdc_outbox.formats.event_format import PayloadType

SOURCE = "a constant"
"""Stands for the default of a source column, whose value is not the same everywhere."""


def outbox_columns(table: OutboxTable, dialect: Dialect) -> Mapping[str, ColumnFacts]:
    """Return the columns of an outbox that ``init`` makes, as the dialect's catalogue spells them, in its order."""
    shape = dialect.features.shape
    types = {**shape.types, AttributeKind.PAYLOAD: shape.payloads[table.payload_type.stored]}
    defaults = {"source": SOURCE, "created_at": shape.now}
    own = {
        column: ColumnFacts(
            types[ATTRIBUTES[role].kind], not_null=not ATTRIBUTES[role].is_nullable, default=defaults.get(role, "")
        )
        for role, column in table.columns.names().items()
    }
    return own | dict.fromkeys(table.header_columns, ColumnFacts(shape.header, not_null=False))


def heads_columns(dialect: Dialect) -> Mapping[str, ColumnFacts]:
    """Return the columns of the head table likewise."""
    heads = dialect.features.shape.heads
    return {column: ColumnFacts(kind, default=SOURCE * (column == "source")) for column, kind in heads.items()}


def outbox_components(
    table: OutboxTable, *, first_source: str, dialect: Dialect = Dialect.POSTGRESQL
) -> tuple[Component, ...]:
    """Return what there is to make for an outbox: elsewhere nothing for an adopted one that is not numbered."""
    if table.adopted and not table.is_numbered and not dialect.features.has_publications:
        return ()
    return (outbox_component(table, first_source=first_source, dialect=dialect),)


def outbox_component(table: OutboxTable, *, first_source: str, dialect: Dialect = Dialect.POSTGRESQL) -> Component:
    """Return an outbox with the tables beside it; without itself where it is adopted or table-less.

    Beside it are its heads if it is numbered, and on PostgreSQL its checkpoints, heartbeats and publishers.

    Args:
        first_source: The default of the ``source`` columns, for example ``orders.1``. It is set once; a later
            incarnation is not undone by running this again.

    Raises:
        ConfigError: It is partitioned or without a table on another database than PostgreSQL, or its messages
            would have a source that is not ASCII.
    """
    table.refuse_elsewhere(dialect)
    if table.mode is OutboxMode.MESSAGE and not first_source.isascii():
        # See emission: the connector reads the content in its JVM's own charset.
        raise ConfigError(f"the source {first_source!r} of a table-less outbox must be ASCII", field="source")
    outbox, features = table.table_in(dialect), dialect.features
    heartbeats = (table.heartbeats,) if features.has_publications and table.has_heartbeats else ()
    read = (table.publishers, table.checkpoints) if features.has_publications else ()
    ours = (*((outbox.sibling("heads"),) if table.is_numbered else ()), *read, *heartbeats)
    rest = () if table.partitions is None else (outbox.sibling("rest"),)
    return Component(
        kind="outbox" if not table.adopted else "heads" if table.is_numbered else "publishers",
        tables=ours if table.adopted else (outbox, *ours, *rest),
        migrations=_migrations(table, _names(table, first_source, dialect), dialect),
        functions=(table.heartbeat,) if heartbeats else (),
    )


def _migrations(
    table: OutboxTable,
    names: Mapping[str, str],
    dialect: Dialect,
    only: Callable[[Statement], bool] = lambda _: True,
) -> tuple[Migration, ...]:
    conditions = {
        _HAS_TABLE: _makes_table(table),
        _PARTITIONED: _makes_table(table) and table.partitions is not None,
        "has_heartbeats": table.has_heartbeats,
        "is_numbered": table.is_numbered,
    }
    return load_migrations(dialect, "outbox", names, conditions=conditions, only=only)


_HAS_TABLE, _PARTITIONED = "has_table", "partitioned"
"""The conditions of statements about the outbox itself."""


def _makes_table(table: OutboxTable) -> bool:
    """Return whether we make the outbox itself: it has rows, and is not adopted."""
    return not table.adopted and table.mode is not OutboxMode.MESSAGE


def table_made_anew(
    name: str, table: OutboxTable, anew: TableName, *, first_source: str, dialect: Dialect
) -> list[str]:
    """Return what makes one table as all versions together make it, under another name.

    Args:
        name: What the statements call the table: ``outbox`` or ``heads``.
    """
    names = {**_names(table, first_source, dialect), name: anew.quoted}
    steps = _migrations(table, names, dialect, lambda statement: f"{{{name}}}" in statement.text)
    return [statement for step in steps for statement in step.statements]


def outbox_statements(
    table: OutboxTable,
    publication: str,
    *,
    first_source: str,
    dialect: Dialect = Dialect.POSTGRESQL,
    known: Collection[str] = (),
) -> list[str]:
    """Return what follows the component: statements without a version, because they declare a target state.

    Args:
        publication: Empty on other databases than PostgreSQL.
        known: As :func:`table_statements`.
    """
    statements = table_statements(table, first_source=first_source, dialect=dialect, known=known)
    return [*statements, publication_statement(table, publication)] if publication else statements


def table_statements(
    table: OutboxTable, *, first_source: str, dialect: Dialect = Dialect.POSTGRESQL, known: Collection[str] = ()
) -> list[str]:
    """Return those about tables: the outbox, which a component made for messages has not; a column for every header.

    An adopted table is its owner's to change.

    Args:
        known: Columns that the table is known to have. SQLite cannot be asked by a statement, so for those that are
            not known it has one that fails where the column exists.
    """
    names, makes_table = _names(table, first_source, dialect), _makes_table(table)
    statements: list[str] = []
    # Elsewhere every component has made it.
    if dialect.features.has_publications:
        statements += [_missing_table(table, names)] if makes_table else []
        statements += _heartbeat(table, names) if table.has_heartbeats else ()
    for column in table.header_columns if makes_table else ():
        statements += [] if column in known else _header_column(table, column, dialect)
    return statements


def _missing_table(table: OutboxTable, names: Mapping[str, str]) -> str:
    """Return the statement that makes the outbox as all versions together do, if a part of it is missing."""
    steps = _migrations(table, names, Dialect.POSTGRESQL, lambda each: each.condition in {_HAS_TABLE, _PARTITIONED})
    creates = ";\n".join(statement for step in steps for statement in step.statements)
    last = table.table if table.partitions is None else table.rest
    names = {**table.table.literals(), "last_literal": last.literals()["table_literal"], "creates": creates}
    return load("postgresql", "outbox_schema")["create_missing_outbox"].render(names)


def publication_statement(table: OutboxTable, publication: str) -> str:
    """Return the statement that makes the publication, or adds the table to it, unless that is done already.

    For messages it stays empty: they pass any publication, but PostgreSQL wants to be named one that exists.

    The publication carries inserts only, and must exist before the slot: PostgreSQL decodes with the catalogue of
    the past, in which a younger publication does not exist. A partitioned table's rows are published as the table's
    own: the connector need not know its partitions.
    """
    name = "create_empty_publication" if table.mode is OutboxMode.MESSAGE else "create_publication"
    return _about_publication(name, table, publication)


def drop_publication_statement(table: OutboxTable, publication: str) -> str:
    """Return the statement that takes the table out of the publication, and drops that if nothing else is in it."""
    return _about_publication("drop_publication", table, publication)


def writer_role(name: str, table: OutboxTable, dialect: Dialect = Dialect.POSTGRESQL) -> Role:
    """Return the service's role: it adds events and numbers them, and neither changes nor deletes one.

    Nor does it read one, but on MariaDB: that returns what was inserted only to who may read all of it.
    """
    return Role(name=name, dialect=dialect, privileges=tuple(_writing(table, dialect)))


def connector_role(name: str, table: OutboxTable, dialect: Dialect = Dialect.POSTGRESQL) -> Role:
    """Return the connector's role: it reads the log and writes heartbeats; it reads rows only to publish them again.

    On MySQL it reads the table's shape too, for the log does not tell that. It locks nothing: with another
    ``snapshot.locking.mode`` than ``none`` it would need ``reload`` or ``lock tables``.
    """
    rows = () if table.mode is OutboxMode.MESSAGE else (Privilege(table=table.table_in(dialect), action="select"),)
    calls = (table.heartbeat,) if dialect.features.has_publications and table.has_heartbeats else ()
    return Role(
        name=name,
        dialect=dialect,
        attributes="login replication",
        privileges=rows,
        everywhere=dialect.features.connector_privileges,
        calls=calls,
    )


def relay_role(name: str, table: OutboxTable) -> Role:
    """Return the relay's role on PostgreSQL: it reads the log, says that it publishes, and writes heartbeats.

    It reads outbox and heads once, before it creates its slot: events that were written before would not be published.
    """
    read = [table.table]
    read += [table.heads] if table.is_numbered else []
    read += [table.heartbeats] if table.has_heartbeats else []
    wanted: dict[TableName, tuple[str, ...]] = dict.fromkeys(read, ("select",))
    wanted[table.publishers] = ("select", "insert", "update")
    return Role(
        name=name,
        attributes="login replication",
        privileges=tuple(
            Privilege(table=table_name, action=action) for table_name, actions in wanted.items() for action in actions
        ),
        calls=(table.heartbeat,) if table.has_heartbeats else (),
    )


def pruner_role(name: str, table: OutboxTable, *, migrator: str) -> Role:
    """Return the role that prunes an outbox on PostgreSQL: it reads and deletes rows, and moves the checkpoints.

    Args:
        migrator: Who owns the partitions, which only an owner or a member of it can drop.
    """
    wanted = {table.table: ("select", "delete"), table.checkpoints: ("select", "insert", "delete")}
    # What they show forbids pruning.
    wanted |= {table.heartbeats: ("select",)} if table.has_heartbeats else {}
    # Or what relays published would be taken for a hole.
    wanted[table.publishers] = ("select",)
    return Role(
        name=name,
        privileges=tuple(
            Privilege(table=table_name, action=action) for table_name, actions in wanted.items() for action in actions
        ),
        member_of=migrator if table.partitions is not None else None,
    )


def _names(table: OutboxTable, first_source: str, dialect: Dialect) -> Mapping[str, str]:
    settings = dialect.features.shape.heads_settings
    return {
        **table.names(dialect),
        "heartbeats": table.heartbeats.quoted,
        "first_source": dialect.literal(first_source),
        "settings": ", ".join(f"{name} = {value}" for name, value in settings.items()),
    }


def _about_publication(name: str, table: OutboxTable, publication: str) -> str:
    names = {
        **table.names(),
        **table.table.literals(),
        "publication": quote(publication),
        "publication_literal": literal(publication),
        "via_root": "" if table.partitions is None else "publish_via_partition_root = true",
        "is_partitioned": "false" if table.partitions is None else "true",
    }
    return load("postgresql", "outbox_schema")[name].render(names)


def _heartbeat(table: OutboxTable, names: Mapping[str, str]) -> list[str]:
    """Return the statements that make the function which writes a heartbeat, as this outbox's events are written."""
    files, columns = load("postgresql", "outbox_schema"), table.columns.names()
    values = {
        "id": "beat.id",
        "aggregate_type": "'heartbeat.' || pipeline",
        "aggregate_id": "pipeline",
        "type": "'Heartbeat'",
        "payload": "content",
        "sequence": "beat.number",
        "source": "pipeline",
        "created_at": "cast(extract(epoch from at) * 1000000 as bigint)",
    }
    fields = [(column, values.get(role, "null")) for role, column in columns.items()]
    fields += [(column, "null") for column in table.header_columns]
    names = {
        **names,
        "heartbeat": table.heartbeat.quoted,
        "heartbeat_payload": _BYTES if table.payload_type.stored is PayloadType.BYTES else "cast(content as json)",
        "heartbeat_fields": ", ".join(f"{literal(column)}, {value}" for column, value in fields),
        "message_prefix": literal(table.message_prefix),
        "has_table": "yes" if table.mode is not OutboxMode.MESSAGE else "",
        "emits": "yes" if table.mode is OutboxMode.MESSAGE else "",
    }
    return [files[name].render(names) for name in ("create_heartbeat", "grant_heartbeat_to_nobody")]


_BYTES = "convert_to(content, 'UTF8')"


def _header_column(table: OutboxTable, column: str, dialect: Dialect) -> list[str]:
    files = load(dialect, "outbox_schema")
    names = {
        **table.names(dialect),
        **table.table_in(dialect).literals(),
        "column": dialect.quote(column),
        "column_literal": dialect.literal(column),
    }
    if "add_column" in files:
        names["add_literal"] = dialect.literal(files["add_column"].render(names))
    return [step.render(names) for step in files["add_header_column"].steps()]


def _writing(table: OutboxTable, dialect: Dialect) -> Iterator[Privilege]:
    outbox, heads = table.table_in(dialect), table.heads_in(dialect)
    if table.mode is not OutboxMode.MESSAGE:
        yield Privilege(table=outbox, action="insert")
        inserted = (*table.columns.names().values(), *table.header_columns)
        read = inserted if dialect.features.returns_readable else (table.columns.id, *table.returned)
        yield Privilege(table=outbox, action="select", columns=read)
    if table.mode is OutboxMode.DELETE:
        yield Privilege(table=outbox, action="delete")
    if table.is_numbered:
        yield Privilege(table=heads, action="select")
        yield Privilege(table=heads, action="insert")
        yield Privilege(table=heads, action="update", columns=(*dialect.features.upserted, "last"))
