"""Rules about the PostgreSQL publication. Pure."""

from collections.abc import Iterator

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.facts import PublicationFacts, SlotFacts, TableFacts
from cdc_outbox.databases.quoting import quote
from cdc_outbox.debezium.preflight.findings import error, note, warning
from cdc_outbox.finding import Finding
from cdc_outbox.redaction import enumerated
from cdc_outbox.spec import Spec

_ALL_TABLES = "all tables"
_MAKE_PUBLICATION = "Run `cdc-outbox init`."
_INSERTS_ONLY = "set (publish = 'insert')"


def check_publication(
    spec: Spec, table: TableFacts | None, publication: PublicationFacts | None, slot: SlotFacts | None = None
) -> Iterator[Finding]:
    """Yield what prevents rows of the outbox from being published, or publishes more than the connector needs.

    Args:
        slot: The pipeline's, if it exists.
    """
    name, outbox = spec.database.publication, spec.outbox.table.quoted
    loses = slot is not None and spec.outbox.mode is not OutboxMode.MESSAGE
    lost = ", although the slot exists: events that are written now are never published" if loses else ""
    if publication is None:
        remedy = "Run `cdc-outbox init`, which reports how to find the missing events." if loses else _MAKE_PUBLICATION
        yield error("DB401", name, f"the publication does not exist{lost}.", remedy)
        return
    yield from _check_others(name, publication)
    if spec.outbox.mode is OutboxMode.MESSAGE:  # any publication sends messages, even an empty one
        return
    alter = f"alter publication {quote(name)}"
    # A relation that is not a table is reported already, and cannot be published. An unlogged table cannot be added to
    # a publication of all tables, which contains it as soon as it is logged.
    joins_alone = publication.carries == _ALL_TABLES and table is not None and table.persistence != "p"
    if not publication.covers_table and table is not None and table.has_log and not joins_alone:
        # Without this setting rows of a partitioned table are published as rows of its partitions.
        partitioned = table.is_partitioned
        yield error(
            "DB402",
            name,
            f"the publication does not contain {spec.outbox.table}{', which is partitioned' * partitioned}{lost}.",
            f"{alter} set (publish_via_partition_root = true)" if partitioned else f"{alter} add table {outbox}",
        )
    if not publication.publishes_inserts:
        yield error("DB403", name, "the publication does not publish inserts.", f"{alter} {_INSERTS_ONLY}")
    if publication.row_filter:
        message = (
            f"the publication has a row filter: rows that do not match {publication.row_filter} are not published."
        )
        yield error("DB404", name, message, _add_again(spec))
    yield from _check_columns(spec, table, publication)
    if publication.carries:
        yield warning(
            "DB407",
            name,
            f"the publication contains {publication.carries}: the connector receives and discards all their changes.",
            f"Before the slot exists: drop publication {quote(name)}, and run `cdc-outbox init`.",
        )
    if publication.also_publishes:
        message = f"the publication publishes {' and '.join(publication.also_publishes)} in addition to inserts."
        yield warning("DB406", name, message, f"{alter} {_INSERTS_ONLY}")


def _check_others(name: str, publication: PublicationFacts) -> Iterator[Finding]:
    if publication.outboxes:
        message = (
            f"the publication also contains {enumerated(publication.outboxes)}; use one publication for each outbox."
        )
        remedy = (
            "Correct outbox.table if it is wrong. If it is right, and no connector reads the other one through this "
            f"publication: alter publication {quote(name)} drop table …"
        )
        yield warning("DB408", name, message, remedy)
    if publication.tables:
        message = f"the publication also contains {enumerated(publication.tables)}."
        remedy = f"Unless the connector reads them: alter publication {quote(name)} drop table …"
        yield note("DB409", name, message, remedy)


def _check_columns(spec: Spec, table: TableFacts | None, publication: PublicationFacts) -> Iterator[Finding]:
    placed = (*spec.outbox.columns.names().values(), *spec.outbox.header_columns)
    published = placed if publication.columns is None else publication.columns
    # Missing and generated columns are reported for the table.
    known = placed if table is None else [name for name, facts in table.columns.items() if not facts.is_generated]
    missing = [column for column in placed if column in known and column not in published]
    if missing and publication.covers_table:
        yield error(
            "DB405",
            spec.database.publication,
            f"the publication excludes the column{'s' * (len(missing) > 1)} {', '.join(missing)}.",
            _add_again(spec),
        )


def _add_again(spec: Spec) -> str:
    """Return the statements that add the whole table, in one transaction: commits in between would be lost."""
    alter, outbox = f"alter publication {quote(spec.database.publication)}", spec.outbox.table.quoted
    return f"begin; {alter} drop table {outbox}; {alter} add table {outbox}; commit"
