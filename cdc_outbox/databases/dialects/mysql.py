"""MariaDB and MySQL."""

from cdc_outbox.databases.dialects.features import DialectFeatures, OutboxShape
from cdc_outbox.databases.quoting import literal
from cdc_outbox.databases.sql import comment
from cdc_outbox.formats.attributes import AttributeKind
from cdc_outbox.formats.event_format import PayloadType


def _literal(text: str) -> str:
    """Return the text as a constant that means the same in every ``sql_mode``."""
    # A backslash means itself or escapes what follows, as the session's sql_mode says; digits mean one thing.
    return f"_utf8mb4 x'{text.encode().hex()}'" if "\\" in text else literal(text)


FEATURES = DialectFeatures(
    title="MariaDB or MySQL",
    schemes=("mysql", "mariadb"),
    driver="mysql",
    extra="mysql",
    quotation_mark="`",
    literal=_literal,
    connector_privileges=("replication slave", "replication client"),
    returns_readable=True,
    upserted=("aggregatetype", "aggregateid"),  # MariaDB asks for what `on duplicate key update` may insert
    undoes_ddl=False,  # each change of a table commits before and after itself
    block="begin not atomic\n{};\nend",  # MariaDB's
    max_payload_depth=31,  # MariaDB's json_valid refuses 32 levels
    payload_types={PayloadType.JSON: "json", PayloadType.BYTES: "longblob"},
    header_type="longtext",  # text ends at 65,535 bytes, and outside strict mode it is cut there without an error
    # With the consumer's name and the first sequence of a hole they fill most of what InnoDB's index takes, 3,072
    # bytes. A topic's name has at most 249.
    key_bytes={"event_id": 2300, "source": 500, "aggregate_type": 500, "aggregate_id": 1300},
    password_note=comment(
        "Set the passwords; until then the users are locked: alter user … identified by '…' account unlock."
    ),
    script_frame=(comment("For the service's database."),),  # each change of a table would end a transaction
    shape=OutboxShape(
        types={
            AttributeKind.ID: "char(36) collate ascii_bin",
            AttributeKind.NAME: "varchar(249) collate utf8mb4_bin",
            AttributeKind.KEY: "varchar(1000) collate utf8mb4_bin",
            AttributeKind.LABEL: "varchar(255) collate utf8mb4_bin",
            AttributeKind.NUMBER: "bigint",
            AttributeKind.TIME: "datetime(6)",
        },
        # MariaDB's json is text with a constraint.
        payloads={PayloadType.JSON: "json or longtext collate utf8mb4_bin", PayloadType.BYTES: "longblob"},
        header="longtext collate utf8mb4_bin",
        now="utc_timestamp(6)",
        heads={
            "source": "varbinary(255)",
            "aggregatetype": "varbinary(249)",
            "aggregateid": "varbinary(1000)",
            "last": "bigint",
        },
        key=("source", "aggregatetype", "aggregateid"),
        settings={"engine": "InnoDB", "row_format": "dynamic", "collate": "utf8mb4_bin"},
        heads_settings={"engine": "InnoDB", "row_format": "dynamic"},
        vital=frozenset({"engine"}),  # another engine undoes nothing
        setting_remedy="alter table … = …",
    ),
)
