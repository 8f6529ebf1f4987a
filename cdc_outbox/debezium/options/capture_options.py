"""The known behavior of the options that decide which data is read from a database, and how."""

from cdc_outbox.debezium.options.behavior import (
    SETTLE_FIRST,
    OptionBehavior,
    Promise,
    Value,
    between,
    connector,
    dangerous,
    messages,
    router,
    unset,
)

BINLOG_BUFFER_EVENTS = 5_000_000
"""How many binlog events of a transaction MariaDB's connector holds; it loses the rest of one that commits. A million
calls of ``add`` make as many, and more than Connect's default heap of 2 GB: memory ends first, and loses none."""

_fits = between(BINLOG_BUFFER_EVENTS, 10**8, "with less, except 0, the end of a long transaction would be lost")
_OFF = frozenset({"false", ""})
_FAIL = frozenset({"fail", ""})
_LEFT_OUT = Promise("the outbox might not be captured")
_ELSEWHERE = dangerous("The connector captures another source; events written to the present one are not published.")
_LOGS_IN_ELSEWHERE = dangerous(
    "has no counterpart in a spec, and the connector would connect to another database.", "Correct database."
)
_INSERTS_ALONE = connector(
    "is set by the spec: the connector skips updates, deletions and truncations, which the router never publishes."
)


def _stops_reading_rows(before: Value | None, after: Value | None) -> bool:
    """Return whether a connector that has offsets reads no rows, now as before.

    ``initial``, the default, reads them where it has no offset; ``never``, ``recovery`` and ``when_needed_no_data`` in
    no case. ``configuration_based`` looks at no offset: it reads them at every start, or at none.
    """
    return after == "no_data" and before in {None, "initial", "never", "recovery", "when_needed_no_data"}


def _left_out_inserts(before: Value | None, _after: Value | None) -> bool:
    return isinstance(before, tuple) and "c" in before


CAPTURE_OPTIONS = (
    OptionBehavior(
        "topic.prefix",
        changed=dangerous(
            "Connect stores offsets by topic prefix: the connector starts again at its slot, and may publish events "
            "twice."
        ),
    ),
    OptionBehavior(
        "name",
        "topic.prefix",
        adopted=dangerous(
            "is not a valid name in a spec, and Connect stores offsets by it: the connector would start without "
            "offsets.",
            SETTLE_FIRST,
        ),
    ),
    OptionBehavior("connector.class", changed=dangerous("Another connector class cannot use the stored offsets.")),
    OptionBehavior("tasks.max", promise=Promise("only one task can read a slot")),
    OptionBehavior(
        "database.hostname",
        "database.port",
        "database.dbname",
        changed=connector(
            "The connector reads another server or database, unless this is another name of the same one; slot and "
            "offset are compared first."
        ),
    ),
    OptionBehavior(
        "database.password", adopted=messages("is not set; the spec contains a reference to it.", when=unset)
    ),
    OptionBehavior(
        "database.server.id", adopted=connector("is set to a number derived from the pipeline's name.", when=unset)
    ),
    OptionBehavior("database.exclude.list", "database.include.list", promise=_LEFT_OUT),
    OptionBehavior(
        "database.",
        changed=connector("The connector connects differently; messages do not change."),
        adopted=_LOGS_IN_ELSEWHERE,
    ),
    OptionBehavior("mongodb.", adopted=_LOGS_IN_ELSEWHERE),
    # Which changes are read.
    OptionBehavior(
        "slot.name",
        changed=dangerous(
            "Events that only the old slot holds are not published, and the old slot retains WAL until it is dropped."
        ),
        adopted=dangerous(
            "has no counterpart in a spec, and another slot lacks the events that this slot holds.", SETTLE_FIRST
        ),
    ),
    OptionBehavior(
        "slot.drop.on.stop",
        promise=Promise("events committed while the connector is stopped would be lost", "CC608", kept_by=_OFF),
    ),
    OptionBehavior("slot.stream.params", promise=Promise("the spec decides what the slot sends")),
    OptionBehavior(
        "plugin.name",
        changed=dangerous("Only the plugin that created a slot can read it: the task fails."),
        adopted=dangerous(
            "becomes pgoutput, and only the plugin that created a slot can read it.",
            "Stop the writers until the slot is read to its end, drop the slot, and deploy with --earlier-events skip.",
        ),
    ),
    OptionBehavior(
        "publication.name",
        changed=dangerous(
            "Changes that the other publication did not contain when they were written are not published, without an "
            "error."
        ),
    ),
    OptionBehavior(
        "publication.autocreate.mode",
        adopted=connector("becomes disabled: the publication must exist, as it does if the connector ran before."),
    ),
    OptionBehavior(
        "offset.mismatch.strategy",
        adopted=connector("becomes no_validation: if slot and offset differ, Debezium moves neither of them."),
    ),
    OptionBehavior(
        "flush.lsn.source",
        promise=Promise("the slot would retain WAL until the disk is full", "CC609", kept_by=frozenset({"true", ""})),
    ),
    OptionBehavior(
        "lsn.flush.", promise=Promise("the slot would retain WAL until the disk is full, or release it too early")
    ),
    OptionBehavior(
        "table.include.list",
        "collection.include.list",
        changed=_ELSEWHERE,
        adopted=dangerous(
            "is different: a spec's connector captures one table, the outbox.",
            "Capture other tables with another connector; set outbox.table if the outbox is another table.",
        ),
    ),
    OptionBehavior(
        "table.exclude.list",
        "schema.include.list",
        "schema.exclude.list",
        "collection.",
        "filters.match.mode",
        promise=_LEFT_OUT,
    ),
    OptionBehavior("message.prefix.include.list", changed=_ELSEWHERE),
    OptionBehavior(
        "message.prefix",
        promise=Promise("the spec decides which messages are events"),
        adopted=connector(
            "is set by the spec: logical messages, which are not rows of a table, are not published.",
            when=unset,
        ),
    ),
    OptionBehavior(
        "capture.",
        promise=Promise("the spec decides which changes are read"),
        adopted=messages(
            "is set by the spec: one database, and each change as it was written.",
            "If the old connector captured more, check that the new one continues from its offset before you delete "
            "the old one.",
        ),
    ),
    OptionBehavior("cursor.pipeline", promise=Promise("changes could be dropped or altered")),
    OptionBehavior("cursor.oversize.", promise=Promise("a change that is too large would be skipped without an error")),
    OptionBehavior("gtid.source.", promise=Promise("transactions from some servers would be skipped without an error")),
    OptionBehavior(
        "log.mining.transaction.retention.ms",
        promise=Promise("a transaction that lasts longer would be discarded with its events"),
    ),
    OptionBehavior("provide.transaction.metadata", promise=Promise("it loses events at a restart (Debezium dbz#76)")),
    OptionBehavior(
        "skipped.operations",
        adopted=(
            dangerous("skipped inserts, which are the events: they are published from now on.", when=_left_out_inserts),
            _INSERTS_ALONE,
        ),
    ),
    OptionBehavior("tombstones.on.delete", *router("table.op.invalid.behavior"), adopted=_INSERTS_ALONE),
    OptionBehavior(
        "binlog.buffer.size",
        override=lambda value: "" if value == "0" else _fits(value),
        changed=(
            dangerous("On MariaDB undone events may be published.", when=lambda _, after: after in {None, "0"}),
            connector("The connector holds each transaction in memory until it has ended; messages do not change."),
        ),
        adopted=connector(
            "is set by the spec, on MariaDB only: the connector holds each transaction in memory until it has ended."
        ),
    ),
    # Which rows are published again.
    OptionBehavior(
        "snapshot.mode.configuration.based",
        "snapshot.mode.custom.name",
        adopted=messages("belongs to its snapshot mode, which becomes no_data: it has no effect any more."),
    ),
    OptionBehavior(
        "snapshot.mode",
        promise=Promise("the spec decides the snapshot mode"),
        changed=(
            connector(
                "A connector with offsets continues as before; without offsets it reads no rows, and "
                "deploy-connector asks whether to publish rows that no slot holds.",
                when=_stops_reading_rows,
            ),
            dangerous("A start may publish rows again, or never publish some of them."),
        ),
        adopted=(
            connector(
                "becomes no_data: a connector with offsets continues as before, and one without offsets reads no rows.",
                "On PostgreSQL deploy-connector asks whether to publish rows that were never published.",
                when=_stops_reading_rows,
            ),
            messages("becomes no_data: a start no longer publishes rows of the table again."),
        ),
    ),
    OptionBehavior(
        "snapshot.locking.mode",
        adopted=connector("is set by the spec: a first start takes no lock and reads no rows."),
    ),
    OptionBehavior(
        "snapshot.include.collection.list",
        promise=Promise("the outbox might be skipped when its events are published again"),
    ),
    OptionBehavior(
        "snapshot.query.mode",
        "snapshot.select.statement.overrides",
        promise=Promise("events would be published again in another order"),
    ),
    # How a row is read.
    OptionBehavior(
        "event.converting.failure.handling.mode",
        promise=Promise("a value that cannot be read would become null"),
        adopted=connector(
            "becomes fail: a value that cannot be read stops the connector, instead of becoming null.", when=unset
        ),
    ),
    OptionBehavior(
        "event.deserialization.failure.handling.mode",
        promise=Promise("changes that cannot be read would be skipped without an error", "CC202", kept_by=_FAIL),
    ),
    OptionBehavior(
        "event.processing.failure.handling.mode",
        promise=Promise("changes that cannot be processed would be skipped without an error", "CC202", kept_by=_FAIL),
    ),
    OptionBehavior(
        "inconsistent.schema.handling.mode",
        promise=Promise(
            "rows that do not fit the known schema would be skipped without an error", "CC202", kept_by=_FAIL
        ),
    ),
    OptionBehavior("binary.handling.mode", promise=Promise("the columns would reach the router as another type")),
    OptionBehavior("column.", promise=Promise("the router would miss a column, or find another value in it")),
    OptionBehavior("field.exclude.list", "field.renames", promise=Promise("the router would miss a field")),
    OptionBehavior("field.name.adjustment.mode", promise=Promise("the router would not find the columns")),
    OptionBehavior("schema.name.adjustment.mode", promise=Promise("the router would not find its fields")),
    OptionBehavior("time.precision.mode", promise=Promise("the router could not read the time of an event")),
    OptionBehavior("post.processors", promise=Promise("the spec decides how a row becomes a message")),
    OptionBehavior(
        "lob.enabled",
        adopted=messages("becomes true: payloads in large columns now arrive with their values."),
    ),
    # What the connector remembers.
    OptionBehavior(
        "include.schema.changes",
        adopted=connector("becomes false: schema changes are no longer published to a topic."),
    ),
    OptionBehavior(
        "schema.history.internal.store.only.captured.tables.ddl",
        adopted=connector("becomes true: from now on the history contains only the outbox."),
    ),
    OptionBehavior(
        "schema.history.internal.skip.unparseable.ddl",
        promise=Promise("after a skipped statement, rows would be read wrongly"),
    ),
    OptionBehavior(
        "schema.history.internal",
        adopted=dangerous(
            "has no counterpart in a spec, and the connector does not start without its history.", SETTLE_FIRST
        ),
    ),
    # How often it looks.
    OptionBehavior(
        "heartbeat.interval.ms",
        override=between(100, 600_000, "with 0 the slot of an idle outbox would retain WAL until the disk is full"),
    ),
    OptionBehavior(
        "heartbeat.",
        changed=connector("The slot advances more or less often while no events are written."),
        adopted=connector(
            "is set by the spec: a heartbeat every ten seconds advances the offset while no events are written."
        ),
    ),
    OptionBehavior(
        "poll.interval.ms",
        override=between(1, 60_000, "0 would keep a core busy, and more than a minute looks like a failure"),
    ),
    OptionBehavior(
        "producer.override.linger.ms", override=between(0, 60_000, "more than a minute looks like a failure")
    ),
    OptionBehavior(
        "poll.interval.ms",
        "producer.override.linger.ms",
        "max.batch.size",
        "max.queue.size",
        changed=connector("Events arrive sooner or later than now; messages do not change."),
    ),
)
"""The known behavior of each; of several entries that cover an option, the first that has the requested field."""
