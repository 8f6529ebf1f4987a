"""What is known of the options that say what becomes of a row until it is a message: router, transforms, converters."""

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

_BOTH_FORMS = "Let consumers read both forms first."
_PASSED_OVER = "Consumers that pass over headers which they do not know notice nothing."
_DO_WITHOUT = "Let consumers do without, or name columns and headers in outbox so that they are the same."

_OTHER_KEYS = dangerous(
    "Keys become other bytes: events of one aggregate go to another partition from now on, where they may be read "
    "before the earlier ones."
)
OTHER_PARTITIONS = (
    "Events of one aggregate go to another partition from now on, where they may be read before the earlier ones."
)
_OTHER_VALUES = messages(
    "Messages written from now on have another form; consumers must take both, for the topic keeps the old."
)
_WORKERS_OWN = messages(
    "is the worker's own; the spec sets the one that its payloads want.",
    "Nothing changes if that is the worker's too: look at its properties.",
    when=unset,
)
_A_ROW = Promise("the spec decides what becomes of a row")
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
                "Messages lose a header or a field, or it is called otherwise: consumers that need it park them.",
                when=_loses,
            ),
            messages("Messages get more headers or fields; consumers that do not know them pass them over."),
        ),
        adopted=(
            dangerous(
                "cannot be said so in a spec: messages lose {lost}, and messages get {gained} more.",
                _DO_WITHOUT,
                when=_loses_and_gains,
            ),
            dangerous("cannot be said so in a spec: messages lose {lost}.", _DO_WITHOUT, when=_loses),
            messages("cannot be said so in a spec: messages get {gained} more.", _PASSED_OVER, when=_gains),
            messages("cannot be said so in a spec: something is placed twice.", _PASSED_OVER),
        ),
    ),
    OptionBehavior(
        *router("route.tombstone.on.empty.payload"),
        changed=_OTHER_VALUES,
        adopted=(
            messages(
                "becomes true: an event without a payload becomes a tombstone, and no message that says null.",
                when=unset,
            ),
            messages("cannot be said in a spec: an empty payload stays one, and is no tombstone."),
        ),
    ),
    OptionBehavior(
        *router("route.topic."),
        adopted=dangerous(
            "cannot be said in a spec: events would go to other topics.",
            "Let consumers read the topics of topics.name, or write it so that they are the same.",
        ),
    ),
    OptionBehavior(
        *router("route."),
        changed=dangerous(
            "Events go to other topics: consumers that do not read those get nothing more, and no error."
        ),
    ),
    OptionBehavior(
        *router("predicate"),
        changed=dangerous("The router sees other records: events may pass it by, to another topic."),
        adopted=dangerous(
            "lets the router see other records than the spec's outbox.", "Look whether outbox.table is the right one."
        ),
    ),
    OptionBehavior(
        *router("table.field.additional.missing", "collection.field.additional.missing"),
        changed=connector("It counts for rows that lack a column which becomes a header, and for no others."),
        adopted=connector(
            "becomes ignore: a row without a placed column loses that header, instead of stopping the connector."
        ),
    ),
    OptionBehavior(
        *router(""),
        changed=_OTHER_VALUES,
        adopted=dangerous("cannot be said in a spec: messages would be others.", _BOTH_FORMS),
    ),
    OptionBehavior(
        "transforms",
        promise=_A_ROW,
        changed=messages("Another transform sees the messages, or one less does."),
        adopted=dangerous(
            "does more than a spec's connector, which routes events and leaves them as they are.",
            "Do in the consumers what the transform does.",
        ),
    ),
    OptionBehavior("predicates", promise=_A_ROW),
    OptionBehavior("topic.delimiter", "topic.naming.strategy", promise=Promise("rows would pass the router by")),
    OptionBehavior(
        "key.converter",
        promise=Promise("another key puts an aggregate into another partition, and its order is lost"),
        changed=_OTHER_KEYS,
        adopted=(
            _WORKERS_OWN,
            dangerous(
                "is another one in the spec: keys are other bytes, and an aggregate moves to another partition.",
                SETTLE_FIRST,
            ),
        ),
    ),
    OptionBehavior(
        "value.converter.delegate.",
        adopted=connector("is what the spec decides: heartbeats, which are no bytes, pass by it."),
    ),
    OptionBehavior(
        "value.converter.schemas.enable",
        adopted=dangerous("becomes false: messages come without a schema around them.", _BOTH_FORMS),
    ),
    OptionBehavior(
        "value.converter",
        promise=Promise("consumers could not read the events"),
        changed=_OTHER_VALUES,
        adopted=(_WORKERS_OWN, dangerous("is another one in the spec: messages have other bytes.", _BOTH_FORMS)),
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
