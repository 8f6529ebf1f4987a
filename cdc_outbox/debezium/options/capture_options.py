"""What is known of the options that say what is read from a database, and how."""

from cdc_outbox.debezium.options.behavior import (
    SETTLE_FIRST,
    About,
    Promise,
    Value,
    between,
    connector,
    dangerous,
    messages,
    router,
    unset,
)

_OFF = frozenset({"false", ""})
_FAIL = frozenset({"fail", ""})
_LEFT_OUT = Promise("the outbox could be left out")
_ELSEWHERE = dangerous("Events are read from elsewhere: what is written where they were read is left out.")
_LOGS_IN_ELSEWHERE = dangerous(
    "cannot be said in a spec, and the connector would log in elsewhere.", "Correct database."
)
_INSERTS_ALONE = connector(
    "is what the spec decides: no update, deletion or truncation reaches the router, which publishes none of them."
)


def _stops_reading_rows(before: Value | None, after: Value | None) -> bool:
    """Tell whether a connector that has offsets reads no rows, now as before.

    ``initial``, the default, reads them where it has no offset; ``never``, ``recovery`` and ``when_needed_no_data`` in
    no case. ``configuration_based`` looks at no offset: it reads them at every start, or at none.
    """
    return after == "no_data" and before in {None, "initial", "never", "recovery", "when_needed_no_data"}


def _left_out_inserts(before: Value | None, _after: Value | None) -> bool:
    return isinstance(before, tuple) and "c" in before


CAPTURE_OPTIONS = (
    About(
        "topic.prefix",
        changed=dangerous(
            "Connect keeps offsets under it: the connector begins anew at its slot, and events may come twice."
        ),
    ),
    About(
        "name",
        "topic.prefix",
        adopted=dangerous(
            "cannot be a name in a spec, and Connect keeps the offsets under it: the connector would begin anew.",
            SETTLE_FIRST,
        ),
    ),
    About("connector.class", changed=dangerous("Another connector reads nothing that this one's offsets speak of.")),
    About("tasks.max", promise=Promise("a slot has one reader")),
    About(
        "database.hostname",
        "database.port",
        "database.dbname",
        changed=connector(
            "The connector reads another server or database, unless it is the same by another name; slot and "
            "offset are compared before."
        ),
    ),
    About("database.password", adopted=messages("is not set; in the spec a reference stands for one.", when=unset)),
    About("database.server.id", adopted=connector("gets a number, made of the pipeline's name.", when=unset)),
    About("database.exclude.list", "database.include.list", promise=_LEFT_OUT),
    About(
        "database.",
        changed=connector("The connector logs in otherwise; messages stay as they are."),
        adopted=_LOGS_IN_ELSEWHERE,
    ),
    About("mongodb.", adopted=_LOGS_IN_ELSEWHERE),
    # Which changes are read.
    About(
        "slot.name",
        changed=dangerous(
            "What only the old slot holds is not published, and the old slot keeps WAL until it is dropped."
        ),
        adopted=dangerous("cannot be said in a spec, and another slot does not hold what this one does.", SETTLE_FIRST),
    ),
    About(
        "slot.drop.on.stop",
        promise=Promise("what is committed while the connector is stopped would be lost", "CC608", kept_by=_OFF),
    ),
    About("slot.stream.params", promise=Promise("the spec decides what the slot sends")),
    About(
        "plugin.name",
        changed=dangerous("A slot can be read only by the plugin that it was made with: the task fails."),
        adopted=dangerous(
            "becomes pgoutput, and a slot can be read only by the plugin that it was made with.",
            "Let the writers rest until the slot is read to its end, drop it, and deploy with --earlier-events skip.",
        ),
    ),
    About(
        "publication.name",
        changed=dangerous(
            "What the other publication lacks, or lacked when it was written, is left out without a word."
        ),
    ),
    About(
        "publication.autocreate.mode",
        adopted=connector("becomes disabled: the publication has to be there, as it is where the connector ran."),
    ),
    About(
        "offset.mismatch.strategy",
        adopted=connector(
            "becomes no_validation: where slot and offset do not fit, Debezium moves neither to the other."
        ),
    ),
    About(
        "flush.lsn.source",
        promise=Promise(
            "the slot would hold back WAL until the disk is full", "CC609", kept_by=frozenset({"true", ""})
        ),
    ),
    About(
        "lsn.flush.", promise=Promise("the slot would hold back WAL until the disk is full, or give it up too early")
    ),
    About(
        "table.include.list",
        "collection.include.list",
        changed=_ELSEWHERE,
        adopted=dangerous(
            "is read differently: a spec's connector captures one table, the outbox.",
            "Keep a connector of its own for what else is captured, and name the outbox in outbox.table if "
            "it is another.",
        ),
    ),
    About(
        "table.exclude.list",
        "schema.include.list",
        "schema.exclude.list",
        "collection.",
        "filters.match.mode",
        promise=_LEFT_OUT,
    ),
    About("message.prefix.include.list", changed=_ELSEWHERE),
    About(
        "message.prefix",
        promise=Promise("the spec decides which messages are events"),
        adopted=connector(
            "is what the spec decides: logical messages, which are no events of a table, are published nowhere.",
            when=unset,
        ),
    ),
    About(
        "capture.",
        promise=Promise("the spec decides which changes are read"),
        adopted=messages(
            "is what the spec decides: one database, and each change as it was written.",
            "Where the connector read more than that, look whether it goes on from its offset before the old "
            "one is gone.",
        ),
    ),
    About("cursor.pipeline", promise=Promise("changes could be left out, or become others")),
    About("cursor.oversize.", promise=Promise("a change that is too large would be skipped without a word")),
    About("gtid.source.", promise=Promise("transactions that came from some servers would be left out without a word")),
    About(
        "log.mining.transaction.retention.ms",
        promise=Promise("a transaction that lasts longer would be given up, and its events"),
    ),
    About("provide.transaction.metadata", promise=Promise("events get lost at a restart with it (Debezium dbz#76)")),
    About(
        "skipped.operations",
        adopted=(
            dangerous(
                "left out inserts, which are the events: they are published from now on.", when=_left_out_inserts
            ),
            _INSERTS_ALONE,
        ),
    ),
    About("tombstones.on.delete", *router("table.op.invalid.behavior"), adopted=_INSERTS_ALONE),
    # Which rows are published again.
    About(
        "snapshot.mode.configuration.based",
        "snapshot.mode.custom.name",
        adopted=messages("goes with its snapshot mode, which becomes no_data: it says nothing any more."),
    ),
    About(
        "snapshot.mode",
        promise=Promise("the spec decides it"),
        changed=(
            connector(
                "A connector that has offsets goes on as before; without them it reads no rows, and deploy asks "
                "what is to become of those that no slot holds.",
                when=_stops_reading_rows,
            ),
            dangerous("A start may publish rows again, or leave some out for good."),
        ),
        adopted=(
            connector(
                "becomes no_data: a connector that has offsets goes on as before, and one that has none reads no rows.",
                "On PostgreSQL deploy-connector asks what is to become of rows that were never published.",
                when=_stops_reading_rows,
            ),
            messages("becomes no_data: a start no longer publishes rows of the table again."),
        ),
    ),
    About(
        "snapshot.locking.mode",
        adopted=connector("is what the spec decides: a first start takes no lock, and no rows."),
    ),
    About(
        "snapshot.include.collection.list",
        promise=Promise("the outbox could be left out when its events are published again"),
    ),
    About(
        "snapshot.query.mode",
        "snapshot.select.statement.overrides",
        promise=Promise("events would be published again in another order"),
    ),
    # How a row is read.
    About(
        "event.converting.failure.handling.mode",
        promise=Promise("a value that cannot be read would become null"),
        adopted=connector(
            "becomes fail: a value that cannot be read stops the connector, instead of becoming null.", when=unset
        ),
    ),
    About(
        "event.deserialization.failure.handling.mode",
        promise=Promise("what cannot be read would be skipped without a word", "CC202", kept_by=_FAIL),
    ),
    About(
        "event.processing.failure.handling.mode",
        promise=Promise("what cannot be processed would be skipped without a word", "CC202", kept_by=_FAIL),
    ),
    About(
        "inconsistent.schema.handling.mode",
        promise=Promise(
            "rows that do not fit the known schema would be skipped without a word", "CC202", kept_by=_FAIL
        ),
    ),
    About("binary.handling.mode", promise=Promise("the columns would reach the router as another type")),
    About("column.", promise=Promise("the router would miss a column, or find another value in it")),
    About("field.exclude.list", "field.renames", promise=Promise("the router would miss a field")),
    About("field.name.adjustment.mode", promise=Promise("the router would not find the columns")),
    About("schema.name.adjustment.mode", promise=Promise("the router would not find what it looks for")),
    About("time.precision.mode", promise=Promise("the router would not understand the time of an event")),
    About("post.processors", promise=Promise("the spec decides what becomes of a row")),
    About(
        "lob.enabled",
        adopted=messages("becomes true: payloads in large columns come with their values, also where they did not."),
    ),
    # What the connector remembers.
    About(
        "include.schema.changes",
        adopted=connector("becomes false: changes of the schema no longer have a topic of their own."),
    ),
    About(
        "schema.history.internal.store.only.captured.tables.ddl",
        adopted=connector("becomes true: the history keeps the outbox alone from now on."),
    ),
    About(
        "schema.history.internal.skip.unparseable.ddl",
        promise=Promise("after a statement that was skipped, rows would be read wrongly"),
    ),
    About(
        "schema.history.internal",
        adopted=dangerous(
            "cannot be said in a spec, and without its history the connector does not go on.", SETTLE_FIRST
        ),
    ),
    # How often it looks.
    About(
        "heartbeat.interval.ms",
        override=between(100, 600_000, "0 would let an idle outbox hold back WAL until the disk is full"),
    ),
    About(
        "heartbeat.",
        changed=connector("The slot moves on more or less often while events rest."),
        adopted=connector(
            "is what the spec decides: a heartbeat every ten seconds, beside the events, moves the offset "
            "while they rest."
        ),
    ),
    About(
        "poll.interval.ms",
        override=between(1, 60_000, "0 would keep a core busy, and more than a minute looks like a standstill"),
    ),
    About("producer.override.linger.ms", override=between(0, 60_000, "more than a minute looks like a standstill")),
    About(
        "poll.interval.ms",
        "producer.override.linger.ms",
        "max.batch.size",
        "max.queue.size",
        changed=connector("Events arrive sooner or later than now; messages stay as they are."),
    ),
)
"""What is known of each; of several entries that cover an option, the first that has a word for what is asked."""
