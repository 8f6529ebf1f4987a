"""What is known of the options that say what is read from a database, and how."""

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
    OptionBehavior(
        "topic.prefix",
        changed=dangerous(
            "Connect keeps offsets under it: the connector begins anew at its slot, and events may come twice."
        ),
    ),
    OptionBehavior(
        "name",
        "topic.prefix",
        adopted=dangerous(
            "cannot be a name in a spec, and Connect keeps the offsets under it: the connector would begin anew.",
            SETTLE_FIRST,
        ),
    ),
    OptionBehavior(
        "connector.class", changed=dangerous("Another connector reads nothing that this one's offsets speak of.")
    ),
    OptionBehavior("tasks.max", promise=Promise("a slot has one reader")),
    OptionBehavior(
        "database.hostname",
        "database.port",
        "database.dbname",
        changed=connector(
            "The connector reads another server or database, unless it is the same by another name; slot and "
            "offset are compared before."
        ),
    ),
    OptionBehavior(
        "database.password", adopted=messages("is not set; in the spec a reference stands for one.", when=unset)
    ),
    OptionBehavior("database.server.id", adopted=connector("gets a number, made of the pipeline's name.", when=unset)),
    OptionBehavior("database.exclude.list", "database.include.list", promise=_LEFT_OUT),
    OptionBehavior(
        "database.",
        changed=connector("The connector logs in otherwise; messages stay as they are."),
        adopted=_LOGS_IN_ELSEWHERE,
    ),
    OptionBehavior("mongodb.", adopted=_LOGS_IN_ELSEWHERE),
    # Which changes are read.
    OptionBehavior(
        "slot.name",
        changed=dangerous(
            "What only the old slot holds is not published, and the old slot keeps WAL until it is dropped."
        ),
        adopted=dangerous("cannot be said in a spec, and another slot does not hold what this one does.", SETTLE_FIRST),
    ),
    OptionBehavior(
        "slot.drop.on.stop",
        promise=Promise("what is committed while the connector is stopped would be lost", "CC608", kept_by=_OFF),
    ),
    OptionBehavior("slot.stream.params", promise=Promise("the spec decides what the slot sends")),
    OptionBehavior(
        "plugin.name",
        changed=dangerous("A slot can be read only by the plugin that it was made with: the task fails."),
        adopted=dangerous(
            "becomes pgoutput, and a slot can be read only by the plugin that it was made with.",
            "Let the writers rest until the slot is read to its end, drop it, and deploy with --earlier-events skip.",
        ),
    ),
    OptionBehavior(
        "publication.name",
        changed=dangerous(
            "What the other publication lacks, or lacked when it was written, is left out without a word."
        ),
    ),
    OptionBehavior(
        "publication.autocreate.mode",
        adopted=connector("becomes disabled: the publication has to be there, as it is where the connector ran."),
    ),
    OptionBehavior(
        "offset.mismatch.strategy",
        adopted=connector(
            "becomes no_validation: where slot and offset do not fit, Debezium moves neither to the other."
        ),
    ),
    OptionBehavior(
        "flush.lsn.source",
        promise=Promise(
            "the slot would hold back WAL until the disk is full", "CC609", kept_by=frozenset({"true", ""})
        ),
    ),
    OptionBehavior(
        "lsn.flush.", promise=Promise("the slot would hold back WAL until the disk is full, or give it up too early")
    ),
    OptionBehavior(
        "table.include.list",
        "collection.include.list",
        changed=_ELSEWHERE,
        adopted=dangerous(
            "is read differently: a spec's connector captures one table, the outbox.",
            "Keep a connector of its own for what else is captured, and name the outbox in outbox.table if "
            "it is another.",
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
            "is what the spec decides: logical messages, which are no events of a table, are published nowhere.",
            when=unset,
        ),
    ),
    OptionBehavior(
        "capture.",
        promise=Promise("the spec decides which changes are read"),
        adopted=messages(
            "is what the spec decides: one database, and each change as it was written.",
            "Where the connector read more than that, look whether it goes on from its offset before the old "
            "one is gone.",
        ),
    ),
    OptionBehavior("cursor.pipeline", promise=Promise("changes could be left out, or become others")),
    OptionBehavior("cursor.oversize.", promise=Promise("a change that is too large would be skipped without a word")),
    OptionBehavior(
        "gtid.source.", promise=Promise("transactions that came from some servers would be left out without a word")
    ),
    OptionBehavior(
        "log.mining.transaction.retention.ms",
        promise=Promise("a transaction that lasts longer would be given up, and its events"),
    ),
    OptionBehavior(
        "provide.transaction.metadata", promise=Promise("events get lost at a restart with it (Debezium dbz#76)")
    ),
    OptionBehavior(
        "skipped.operations",
        adopted=(
            dangerous(
                "left out inserts, which are the events: they are published from now on.", when=_left_out_inserts
            ),
            _INSERTS_ALONE,
        ),
    ),
    OptionBehavior("tombstones.on.delete", *router("table.op.invalid.behavior"), adopted=_INSERTS_ALONE),
    # Which rows are published again.
    OptionBehavior(
        "snapshot.mode.configuration.based",
        "snapshot.mode.custom.name",
        adopted=messages("goes with its snapshot mode, which becomes no_data: it says nothing any more."),
    ),
    OptionBehavior(
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
    OptionBehavior(
        "snapshot.locking.mode",
        adopted=connector("is what the spec decides: a first start takes no lock, and no rows."),
    ),
    OptionBehavior(
        "snapshot.include.collection.list",
        promise=Promise("the outbox could be left out when its events are published again"),
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
        promise=Promise("what cannot be read would be skipped without a word", "CC202", kept_by=_FAIL),
    ),
    OptionBehavior(
        "event.processing.failure.handling.mode",
        promise=Promise("what cannot be processed would be skipped without a word", "CC202", kept_by=_FAIL),
    ),
    OptionBehavior(
        "inconsistent.schema.handling.mode",
        promise=Promise(
            "rows that do not fit the known schema would be skipped without a word", "CC202", kept_by=_FAIL
        ),
    ),
    OptionBehavior("binary.handling.mode", promise=Promise("the columns would reach the router as another type")),
    OptionBehavior("column.", promise=Promise("the router would miss a column, or find another value in it")),
    OptionBehavior("field.exclude.list", "field.renames", promise=Promise("the router would miss a field")),
    OptionBehavior("field.name.adjustment.mode", promise=Promise("the router would not find the columns")),
    OptionBehavior("schema.name.adjustment.mode", promise=Promise("the router would not find what it looks for")),
    OptionBehavior("time.precision.mode", promise=Promise("the router would not understand the time of an event")),
    OptionBehavior("post.processors", promise=Promise("the spec decides what becomes of a row")),
    OptionBehavior(
        "lob.enabled",
        adopted=messages("becomes true: payloads in large columns come with their values, also where they did not."),
    ),
    # What the connector remembers.
    OptionBehavior(
        "include.schema.changes",
        adopted=connector("becomes false: changes of the schema no longer have a topic of their own."),
    ),
    OptionBehavior(
        "schema.history.internal.store.only.captured.tables.ddl",
        adopted=connector("becomes true: the history keeps the outbox alone from now on."),
    ),
    OptionBehavior(
        "schema.history.internal.skip.unparseable.ddl",
        promise=Promise("after a statement that was skipped, rows would be read wrongly"),
    ),
    OptionBehavior(
        "schema.history.internal",
        adopted=dangerous(
            "cannot be said in a spec, and without its history the connector does not go on.", SETTLE_FIRST
        ),
    ),
    # How often it looks.
    OptionBehavior(
        "heartbeat.interval.ms",
        override=between(100, 600_000, "0 would let an idle outbox hold back WAL until the disk is full"),
    ),
    OptionBehavior(
        "heartbeat.",
        changed=connector("The slot moves on more or less often while events rest."),
        adopted=connector(
            "is what the spec decides: a heartbeat every ten seconds, beside the events, moves the offset "
            "while they rest."
        ),
    ),
    OptionBehavior(
        "poll.interval.ms",
        override=between(1, 60_000, "0 would keep a core busy, and more than a minute looks like a standstill"),
    ),
    OptionBehavior(
        "producer.override.linger.ms", override=between(0, 60_000, "more than a minute looks like a standstill")
    ),
    OptionBehavior(
        "poll.interval.ms",
        "producer.override.linger.ms",
        "max.batch.size",
        "max.queue.size",
        changed=connector("Events arrive sooner or later than now; messages stay as they are."),
    ),
)
"""What is known of each; of several entries that cover an option, the first that has a word for what is asked."""
