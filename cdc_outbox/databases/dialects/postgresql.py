"""PostgreSQL."""

from collections.abc import Mapping

from cdc_outbox.databases.dialects.features import DialectFeatures, OutboxShape
from cdc_outbox.databases.sql import comment
from cdc_outbox.formats.attributes import AttributeKind
from cdc_outbox.formats.event_format import PayloadType

HEADS_SETTINGS: Mapping[str, str] = {"fillfactor": "80", "autovacuum_vacuum_scale_factor": "0.02"}
"""Storage parameters of the head table. A fifth of a page is room for some twenty updates while a transaction that was
open before keeps the old versions from being cleared away; every update then stays on its page, out of the index."""


def _time_text(column: str) -> str:
    """Return a time as text: a session's DateStyle would have its say otherwise."""
    return f"to_char({column}, 'YYYY-MM-DD\"T\"HH24:MI:SS.USTZH:TZM')"


FEATURES = DialectFeatures(
    title="PostgreSQL",
    schemes=("postgresql", "postgres"),
    driver="psycopg",
    extra="postgres",
    default_schema="public",
    has_publications=True,
    has_partitions=True,
    has_owners=True,
    text_change="alter table {table} alter column {column} type text",
    has_arrays=True,
    payload_types={PayloadType.JSON: "json", PayloadType.BYTES: "bytea"},
    header_type="text",
    time_text=_time_text,
    names_transactions=True,
    password_note=comment("Set the passwords yourself: alter role … password '…', or \\password in psql."),
    script_frame=(
        # See migrations.fixed_settings; here the transaction is the script's own.
        "begin;\n\nset local search_path = pg_catalog, pg_temp;\nset local row_security = off;",
        "commit;",
    ),
    shape=OutboxShape(
        types={
            AttributeKind.ID: "uuid",
            **dict.fromkeys((AttributeKind.NAME, AttributeKind.KEY, AttributeKind.LABEL), "text"),
            AttributeKind.NUMBER: "bigint",
            AttributeKind.TIME: "timestamp(6) without time zone",
        },
        payloads={PayloadType.JSON: "json", PayloadType.BYTES: "bytea"},
        header="text",
        now="(clock_timestamp() AT TIME ZONE 'UTC')",
        heads={"source": "text", "aggregatetype": "text", "aggregateid": "text", "last": "bigint"},
        key=("source", "aggregatetype", "aggregateid"),
        heads_settings=HEADS_SETTINGS,
        setting_remedy="alter table … set (… = …)",
    ),
)
