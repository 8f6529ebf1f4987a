"""The known behavior of the options that decide how a row becomes a message: router, transforms, converters."""

from cdc_outbox.debezium.options.behavior import (
    SETTLE_FIRST,
    OptionBehavior,
    Promise,
    Value,
    connector,
    dangerous,
    messages,
    router,
    unset,
)

_BOTH_FORMS = "First make the consumers read both forms."
_PASSED_OVER = "Consumers that ignore unknown headers are not affected."
_DO_WITHOUT = "Make the consumers work without them, or set the same columns and headers in outbox."

_OTHER_KEYS = dangerous(
    "Keys have other bytes: from now on, events of one aggregate go to another partition and may be read before "
    "earlier ones."
)
OTHER_PARTITIONS = "From now on, events of one aggregate go to another partition and may be read before earlier ones."
_OTHER_VALUES = messages(
    "Messages written from now on have another form; consumers must read both, because the topic keeps the old ones."
)
_WORKERS_OWN = messages(
    "is not set, so that the worker's value counts; the spec sets the value that its payloads need.",
    "Nothing changes if the worker's value is the same: check its properties.",
    when=unset,
)
_A_ROW = Promise("the spec decides how a row becomes a message")
_PLACEMENTS = router("table.fields.additional.placement", "collection.fields.additional.placement")


def placed(value: Value | None) -> frozenset[str]:
    """Return the entries of a placement: column, kind and name, with colons between them."""
    return frozenset(value) if isinstance(value, tuple) else frozenset()


def _partitions(value: Value | None) -> set[str]:
    return {entry for entry in placed(value) if entry.split(":")[1:2] == ["partition"]}


def _moves_partition(before: Value | None, after: Value | None) -> bool:
    return _partitions(before) != _partitions(after)


def _loses(before: Value | None, after: Value | None) -> bool:
    return bool(placed(before) - placed(after))


def _gains(before: Value | None, after: Value | None) -> bool:
    return bool(placed(after) - placed(before))


def _loses_and_gains(before: Value | None, after: Value | None) -> bool:
    return _loses(before, after) and _gains(before, after)


ROUTER_OPTIONS = (
    OptionBehavior(*router("table.field.event.key", "collection.field.event.key"), changed=_OTHER_KEYS),
    OptionBehavior("transforms.MongoEventRouter.collection.field.event.key", default="aggregateid"),
    OptionBehavior(
        *_PLACEMENTS,
        changed=(
            dangerous(OTHER_PARTITIONS, when=_moves_partition),
            messages(
                "Messages lose a header or a field, or it gets another name: consumers that need it park them.",
                when=_loses,
            ),
            messages("Messages get more headers or fields; consumers that do not know them ignore them."),
        ),
        adopted=(
            dangerous(
                "cannot be expressed in a spec: messages lose {lost} and additionally get {gained}.",
                _DO_WITHOUT,
                when=_loses_and_gains,
            ),
            dangerous("cannot be expressed in a spec: messages lose {lost}.", _DO_WITHOUT, when=_loses),
            messages("cannot be expressed in a spec: messages additionally get {gained}.", _PASSED_OVER, when=_gains),
            messages("cannot be expressed in a spec: a column is placed twice.", _PASSED_OVER),
        ),
    ),
    OptionBehavior(
        *router("route.tombstone.on.empty.payload"),
        changed=_OTHER_VALUES,
        adopted=(
            messages(
                "becomes true: an event without a payload becomes a tombstone, not a message with the value null.",
                when=unset,
            ),
            messages("cannot be expressed in a spec: an empty payload stays empty and does not become a tombstone."),
        ),
    ),
    OptionBehavior(
        *router("route.topic."),
        adopted=dangerous(
            "cannot be expressed in a spec: events would go to other topics.",
            "Make the consumers read the topics of topics.name, or set it so that the topics stay the same.",
        ),
    ),
    OptionBehavior(
        *router("route."),
        changed=dangerous(
            "Events go to other topics: consumers that do not read them get no more events, and no error."
        ),
    ),
    OptionBehavior(
        *router("predicate"),
        changed=dangerous("The router gets other records: events may bypass it, to another topic."),
        adopted=dangerous(
            "gives the router other records than those of the spec's outbox.",
            "Check that outbox.table is the right one.",
        ),
    ),
    OptionBehavior(
        *router("table.field.additional.missing", "collection.field.additional.missing"),
        changed=connector("It only affects rows without a column that becomes a header."),
        adopted=connector(
            "becomes ignore: a row without a placed column loses that header; it does not stop the connector."
        ),
    ),
    OptionBehavior(
        *router(""),
        changed=_OTHER_VALUES,
        adopted=dangerous("cannot be expressed in a spec: messages would change.", _BOTH_FORMS),
    ),
    OptionBehavior(
        "transforms",
        promise=_A_ROW,
        changed=messages("The messages go through more or fewer transforms."),
        adopted=dangerous(
            "does more than a spec's connector, which routes events without changing them.",
            "Move the work of the transform to the consumers.",
        ),
    ),
    OptionBehavior("predicates", promise=_A_ROW),
    OptionBehavior("topic.delimiter", "topic.naming.strategy", promise=Promise("rows would bypass the router")),
    OptionBehavior(
        "key.converter",
        promise=Promise("another key puts an aggregate into another partition, and its order is lost"),
        changed=_OTHER_KEYS,
        adopted=(
            _WORKERS_OWN,
            dangerous(
                "is different in the spec: keys have other bytes, and an aggregate moves to another partition.",
                SETTLE_FIRST,
            ),
        ),
    ),
    OptionBehavior(
        "value.converter.delegate.",
        adopted=connector("is set by the spec: it applies to heartbeats, whose values are not bytes."),
    ),
    OptionBehavior(
        "value.converter.schemas.enable",
        adopted=dangerous("becomes false: messages have no schema around them.", _BOTH_FORMS),
    ),
    OptionBehavior(
        "value.converter",
        promise=Promise("consumers could not read the events"),
        changed=_OTHER_VALUES,
        adopted=(_WORKERS_OWN, dangerous("is different in the spec: messages have other bytes.", _BOTH_FORMS)),
    ),
    OptionBehavior(
        "header.converter",
        default="org.apache.kafka.connect.storage.SimpleHeaderConverter",
        promise=Promise("consumers could not read the headers"),
        changed=_OTHER_VALUES,
    ),
    # Consumers pass Debezium's own headers over.
    OptionBehavior("extended.headers.enabled", override=lambda _value: ""),
)
