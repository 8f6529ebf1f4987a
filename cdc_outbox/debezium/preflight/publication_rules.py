"""PostgreSQL's publication against what the connector needs of it. Pure."""

from collections.abc import Iterator

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.facts import PublicationFacts, TableFacts
from cdc_outbox.databases.quoting import quote
from cdc_outbox.debezium.preflight.findings import error, note, warning
from cdc_outbox.finding import Finding
from cdc_outbox.redaction import enumerated
from cdc_outbox.spec import Spec

_ALL_TABLES = "all tables"
_INSERTS_ONLY = "set (publish = 'insert')"


def check_publication(spec: Spec, table: TableFacts | None, publication: PublicationFacts | None) -> Iterator[Finding]:
    """Yield what keeps rows of the outbox from leaving, or lets more leave than anybody wants."""
    name, outbox = spec.database.publication, spec.outbox.table.quoted
    if publication is None:
        yield error("DB401", name, "the publication does not exist.", "Run `cdc-outbox init`.")
        return
    yield from _check_others(name, publication)
    if spec.outbox.mode is OutboxMode.MESSAGE:  # messages pass any publication, also an empty one
        return
    alter = f"alter publication {quote(name)}"
    # What is no table is told already, and no publication can have it. Nor need an unlogged table be added to one of
    # all tables, which PostgreSQL refuses: it is in it as soon as it is logged.
    joins_alone = publication.carries == _ALL_TABLES and table is not None and table.persistence != "p"
    if not publication.covers_table and table is not None and table.has_log and not joins_alone:
        # Without that setting a partitioned table's rows are published as those of its partitions.
        partitioned = table.is_partitioned
        yield error(
            "DB402",
            name,
            f"the publication does not cover {spec.outbox.table}{', which is partitioned' if partitioned else ''}.",
            f"{alter} set (publish_via_partition_root = true)" if partitioned else f"{alter} add table {outbox}",
        )
    if not publication.publishes_inserts:
        yield error("DB403", name, "the publication publishes no inserts.", f"{alter} {_INSERTS_ONLY}")
    if publication.row_filter:
        message = (
            f"the publication has a row filter, and what does not meet {publication.row_filter} would never leave."
        )
        yield error("DB404", name, message, _anew(spec))
    yield from _check_columns(spec, table, publication)
    if publication.carries:
        yield warning(
            "DB407",
            name,
            f"the publication carries {publication.carries}: every change of theirs is sent, and thrown away.",
            f"drop publication {quote(name)}, and run `cdc-outbox init`, before there is a slot.",
        )
    if publication.also_publishes:
        message = f"the publication carries {' and '.join(publication.also_publishes)} beside inserts."
        yield warning("DB406", name, message, f"{alter} {_INSERTS_ONLY}")


def _check_others(name: str, publication: PublicationFacts) -> Iterator[Finding]:
    if publication.outboxes:
        message = f"the publication also publishes {enumerated(publication.outboxes)}: a publication is for one outbox."
        remedy = (
            "Correct outbox.table if it is a slip. If it is right, and no connector reads the other one through this "
            f"publication: alter publication {quote(name)} drop table …"
        )
        yield warning("DB408", name, message, remedy)
    if publication.tables:
        message = f"the publication also publishes {enumerated(publication.tables)}."
        remedy = f"Unless the connector reads them: alter publication {quote(name)} drop table …"
        yield note("DB409", name, message, remedy)


def _check_columns(spec: Spec, table: TableFacts | None, publication: PublicationFacts) -> Iterator[Finding]:
    placed = (*spec.outbox.columns.names().values(), *spec.outbox.header_columns)
    published = placed if publication.columns is None else publication.columns
    # What the table lacks, or computes by itself, is told of the table.
    known = placed if table is None else [name for name, facts in table.columns.items() if not facts.is_generated]
    missing = [column for column in placed if column in known and column not in published]
    if missing and publication.covers_table:
        yield error(
            "DB405",
            spec.database.publication,
            f"the publication leaves out the column{'s' * (len(missing) > 1)} {', '.join(missing)}.",
            _anew(spec),
        )


def _anew(spec: Spec) -> str:
    """Return the statements that put the whole table in; in one transaction, or what commits between them is lost."""
    alter, outbox = f"alter publication {quote(spec.database.publication)}", spec.outbox.table.quoted
    return f"begin; {alter} drop table {outbox}; {alter} add table {outbox}; commit"
