"""SQLite."""

from cdc_outbox.databases.dialects.features import DialectFeatures, OutboxShape
from cdc_outbox.formats.attributes import AttributeKind
from cdc_outbox.formats.event_format import PayloadType

_TYPES = {PayloadType.JSON: "text", PayloadType.BYTES: "blob"}

FEATURES = DialectFeatures(
    title="SQLite",
    schemes=("sqlite",),
    driver="sqlite3",
    default_schema="main",
    has_row_locks=False,
    marks_heads=True,
    adds_missing_columns=False,
    indexes_have_schemas=True,
    payload_types=_TYPES,
    header_type="text",
    script_frame=("begin immediate;", "commit;"),
    shape=OutboxShape(
        types={**dict.fromkeys(AttributeKind, "text"), AttributeKind.NUMBER: "integer"},
        payloads=_TYPES,
        header="text",
        now="strftime('%Y-%m-%dT%H:%M:%f', 'now')",
        heads={
            "source": "text",
            "aggregatetype": "text",
            "aggregateid": "text",
            "last": "integer",
            "event_id": "text",
        },
        key=("aggregatetype", "aggregateid", "source"),
        settings={"strict": "1"},
        heads_settings={"strict": "1"},
        vital=frozenset({"strict"}),  # without it a type is a wish: a text becomes a number where it looks like one
        setting_remedy="Create the table again.",
    ),
)
