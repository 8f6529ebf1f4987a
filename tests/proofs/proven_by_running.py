"""What fails, goes astray or never comes when a connector runs: transforms, predicates, topics, tables."""

import re

from tests.proofs.place import PostgresPlace
from tests.proofs.proof import Changes
from tests.proofs.ran import Ran, arrives, fails, nothing
from tests.support.configs import BINARY, JSON, ROUTER, TOPIC_NAMES

_R, _T = "transforms.outbox.", "transforms.outbox.table."
_PLACEMENT = f"{_T}fields.additional.placement"
_KAFKA = "org.apache.kafka.connect.transforms."
_EVENTS: Changes = {
    "transforms": "outbox,more",
    "transforms.more.predicate": "isEvent",
    "predicates": "isOutbox,isEvent",
    "predicates.isEvent.type": TOPIC_NAMES,
    "predicates.isEvent.pattern": "{name}\\..*",
}
"""A transform behind the router that sees events, and no heartbeats."""
_NO_PAYLOAD = fails("ConnectException", "Unable to find payload field")
_UNASKED: Changes = {
    f"{_R}predicate": None,
    "predicates": None,
    "predicates.isOutbox.type": None,
    "predicates.isOutbox.pattern": None,
}


def _poison_and_good(place: PostgresPlace) -> None:
    """Write a row that the router cannot take, and one that it can."""
    place.event(None)
    place.event()


def _other_and_event(place: PostgresPlace) -> None:
    place.sql("insert into {name}.other (note) values ('x')")
    place.event()


def _message_and_event(place: PostgresPlace) -> None:
    place.sql("select pg_logical_emit_message(true, '{name}', 'x')")
    place.event()


def _signal_and_event(place: PostgresPlace) -> None:
    place.sql("""insert into {name}.signals values ('1', 'log', '{"message": "x"}')""")
    place.event()


def _truncate_and_event(place: PostgresPlace) -> None:
    place.sql("truncate {name}.outbox")
    place.event()


def _event_and_update(place: PostgresPlace) -> None:
    place.event()
    place.sql("update {name}.outbox set type = 'Changed'")
    place.event()


def _six_of_one(place: PostgresPlace) -> None:
    for _ in range(6):
        place.event()


def _partitions(place: PostgresPlace) -> int:
    return place.topics.partitions.get(f"{place.name}.order", 0)


def _header(place: PostgresPlace, name: str) -> bool:
    return any(name in dict(message.headers) for message in place.messages())


RAN = (
    Ran(
        code="CC101",
        changes={"slot.nam": "{name}_mine"},
        fixed={"slot.name": "{name}_mine"},
        shows=lambda place: arrives(place) and not place.has_slot(f"{place.name}_mine"),
        instead=lambda place: place.has_slot(f"{place.name}_mine"),
    ),
    Ran(
        code="CC103",
        changes={"database.server.name": "{name}.old"},
        fixed={"topic.prefix": "{name}.old", "predicates.isOutbox.pattern": ".*outbox"},
        shows=lambda place: arrives(place) and not place.topics.messages(f"__debezium-heartbeat.{place.name}.old"),
        instead=lambda place: place.topics.messages(f"__debezium-heartbeat.{place.name}.old"),
    ),
    Ran(
        code="CC113",
        changes={"value.converter.basic.auth.user.info": "user:hunter2"},
        fixed={"value.converter.basic.auth.user.info": "${env:CONNECTOR_PASSWORD}"},
        shows=lambda place: "user:hunter2" in (place.client.find_config(place.name) or {}).values(),
    ),
    Ran(
        code="CC201",
        changes={"errors.tolerance": "all"},
        act=_poison_and_good,
        shows=lambda place: place.has_read() and len(place.messages()) == 1,
        instead=fails("NullPointerException"),
    ),
    Ran(
        code="CC206",
        changes={"producer.override.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
        act=_six_of_one,
        shows=lambda place: len({message.partition for message in place.messages()}) > 1,
        instead=lambda place: len(place.messages()) == 6,
    ),
    Ran(
        code="CC207",
        changes={"producer.override.transactional.id": "{name}", "producer.override.enable.idempotence": None},
        shows=fails("ConfigException", "without also enabling idempotence"),
    ),
    Ran(
        code="CC210",
        changes={"tasks.max": "2"},
        shows=lambda place: arrives(place) and len(place.status().tasks) == 1,
        instead=None,
    ),
    Ran(
        code="CC213",
        changes={
            "transforms.more.type": f"{_KAFKA}InsertHeader",
            "transforms.more.header": "more",
            "transforms.more.value.literal": "x",
        },
        fixed={
            "transforms": "outbox,more",
            "transforms.more.type": f"{_KAFKA}InsertHeader",
            "transforms.more.header": "more",
            "transforms.more.value.literal": "x",
        },
        shows=lambda place: arrives(place) and not _header(place, "more"),
    ),
    Ran(
        code="CC229",
        changes={"transforms": None},
        also=("CC213", "CC215"),
        shows=lambda place: place.raw() and not place.messages(),
    ),
    Ran(code="CC214", changes={f"{_R}predicate": "isOutbx"}, also=("CC215",), shows=fails("Exception", "isOutbx")),
    Ran(
        code="CC215",
        changes={f"{_R}predicate": None, "predicates.isOutbox.pattern": "nothing"},
        fixed={"predicates.isOutbox.pattern": "nothing"},
        shows=arrives,
        instead=lambda place: place.raw(),
    ),
    Ran(code="CC217", changes={"internal.key.converter": "org.example.Nothing"}, shows=arrives, instead=None),
    Ran(
        code="CC220",
        changes={
            "producer.override.security.protocol": "SASL_PLAINTEXT",
            "producer.override.sasl.mechanism": "PLAIN",
            "producer.override.sasl.jaas.config": "com.sun.security.auth.module.JndiLoginModule required;",
        },
        also=("CC116",),
        shows=fails("IllegalArgumentException", "JndiLoginModule is not allowed"),
    ),
    Ran(
        code="CC221",
        changes={
            "transforms": "outbox,add",
            "transforms.add.type": f"{_KAFKA}InsertField$Value",
            "transforms.add.static.field": "more",
            "transforms.add.static.value": "x",
        },
        shows=fails("DataException", "Only Struct objects supported"),
    ),
    Ran(
        code="CC222",
        changes={
            "transforms": "unwrap,outbox",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        },
        shows=lambda place: place.raw() and not place.messages(),
    ),
    Ran(
        code="CC225",
        changes={"errors.deadletterqueue.topic.name": "{name}.dead"},
        act=_poison_and_good,
        shows=lambda place: place.trace() and f"{place.name}.dead" not in place.topics.partitions,
        instead=None,
    ),
    Ran(
        code="CC226",
        changes={"predicates.isOutbox.patern": "nothing"},
        fixed={"predicates.isOutbox.pattern": "nothing"},
        shows=arrives,
        instead=lambda place: place.raw(),
    ),
    Ran(
        code="CC227",
        # Heartbeats pass, by which is seen that the connector has read on.
        changes={**_EVENTS, "transforms.more.type": f"{_KAFKA}Filter"},
        shows=lambda place: nothing(place) and not place.raw(),
    ),
    Ran(
        code="CC228",
        changes={**_EVENTS, "transforms.more.type": f"{_KAFKA}TimestampRouter"},
        shows=lambda place: any(topic.startswith(f"{place.name}.order-20") for topic in place.topics.partitions),
    ),
    Ran(
        code="CC251",
        changes={"topic.creation.default.partitions": None},
        shows=fails("ConfigException", "topic.creation.default.partitions"),
    ),
    Ran(
        code="CC252",
        changes={"topic.creation.groups": "events", "topic.creation.events.partitions": "7"},
        fixed={
            "topic.creation.groups": "events",
            "topic.creation.events.partitions": "7",
            "topic.creation.events.include": ".*",
        },
        shows=lambda place: _partitions(place) == 3,
        instead=lambda place: _partitions(place) == 7,
    ),
    Ran(
        code="CC253",
        changes={"topic.creation.events.include": ".*", "topic.creation.events.partitions": "7"},
        fixed={
            "topic.creation.groups": "events",
            "topic.creation.events.include": ".*",
            "topic.creation.events.partitions": "7",
        },
        shows=lambda place: _partitions(place) == 3,
        instead=lambda place: _partitions(place) == 7,
    ),
    Ran(
        code="CC254",
        changes={"topic.creation.groups": "events", "topic.creation.events.include": "[a"},
        shows=fails("Exception", "[a"),
    ),
    Ran(
        code="CC255",
        changes={"topic.creation.default.cleanup.policy": "compact"},
        shows=lambda place: (
            arrives(place) and place.topics.setting(f"{place.name}.order", "cleanup.policy") == "compact"
        ),
    ),
    Ran(
        code="CC257",
        changes={"topic.creation.default.partitions": "1"},
        shows=lambda place: _partitions(place) == 1,
    ),
    Ran(
        code="CC258",
        changes={
            "topic.creation.default.partitions": None,
            "topic.creation.default.replication.factor": None,
            "topic.creation.default.cleanup.policy": None,
            "topic.creation.default.message.timestamp.type": None,
        },
        shows=lambda place: (
            not place.messages() and re.search(f"producer-{place.name}.*UNKNOWN_TOPIC_OR_PARTITION", place.log())
        ),
    ),
    Ran(
        code="CC303", changes={_PLACEMENT: "type"}, shows=fails("ConfigException", "table.fields.additional.placement")
    ),
    Ran(
        code="CC309",
        changes={f"{_T}op.invalid.behavior": "nope"},
        also=("CC329",),
        shows=fails("ConfigException", "table.op.invalid.behavior"),
    ),
    Ran(
        code="CC311", changes={f"{_R}route.topic.regex": " [[a-z]"}, shows=fails("ConfigException", "route.topic.regex")
    ),
    Ran(
        code="CC313",
        changes={f"{_R}route.topic.replacement": "{name}/${routedByValue}"},
        shows=fails("InvalidTopicException"),
    ),
    Ran(
        code="CC329",
        changes={f"{_T}op.invalid.behavior": "fatal"},
        fixed={f"{_T}op.invalid.behavior": "fatal", "skipped.operations": "d,t"},
        act=_event_and_update,
        shows=lambda place: len(place.messages()) == 2 and not place.trace(),
        instead=fails("IllegalStateException"),
    ),
    Ran(
        code="CC337",
        changes={f"{_T}op.invalid.behavior": "fatal", "skipped.operations": "d,t"},
        fixed={"skipped.operations": "d,t"},
        act=_event_and_update,
        shows=fails("IllegalStateException"),
        instead=lambda place: len(place.messages()) == 2,
    ),
    Ran(
        code="CC330",
        also=("CC505",),
        changes={
            "transforms": "first,outbox",
            "transforms.first.type": ROUTER,
            "transforms.first.route.topic.replacement": "{name}.first.${routedByValue}",
            "transforms.first.table.field.event.timestamp": "created_at",
        },
        shows=lambda place: place.messages("first.order") and not place.messages(),
    ),
    Ran(code="CC332", changes={"skipped.operations": "c,u,d,t"}, shows=nothing),
    Ran(
        code="CC333",
        changes={"skipped.operations": "u,d"},
        act=_truncate_and_event,
        shows=fails("DataException"),
    ),
    Ran(code="CC334", changes={"time.precision.mode": "connect"}, shows=fails("ClassCastException")),
    Ran(code="CC336", changes={"column.exclude.list": "{name}.outbox.payload"}, shows=_NO_PAYLOAD),
    Ran(
        code="CC410",
        act=lambda place: place.event(payload="\\x0001"),
        prepare="alter table {name}.outbox alter payload type bytea using null",
        changes={
            "binary.handling.mode": "base64",
            "value.converter": BINARY,
            "value.converter.delegate.converter.type": JSON,
        },
        fixed={"value.converter": BINARY, "value.converter.delegate.converter.type": JSON},
        shows=lambda place: any(b"AAE=" in (message.value or b"") for message in place.messages()),
        instead=lambda place: any(message.value == b"\x00\x01" for message in place.messages()),
    ),
    Ran(
        code="CC501",
        changes={**_UNASKED, "table.include.list": None},
        act=_other_and_event,
        shows=_NO_PAYLOAD,
    ),
    Ran(
        code="CC502",
        changes={**_UNASKED, "table.include.list": "{name}.outbox,{name}.other"},
        fixed={"table.include.list": "{name}.outbox,{name}.other"},
        act=_other_and_event,
        shows=_NO_PAYLOAD,
    ),
    Ran(
        code="CC503",
        changes={**_UNASKED, "signal.data.collection": "{name}.signals"},
        fixed={"signal.data.collection": "{name}.signals"},
        act=_signal_and_event,
        shows=_NO_PAYLOAD,
    ),
    Ran(
        code="CC504",
        changes={**_UNASKED, "table.include.list": "{name}\\..*"},
        fixed={"table.include.list": "{name}\\..*"},
        act=_other_and_event,
        shows=_NO_PAYLOAD,
    ),
    Ran(
        code="CC505",
        changes={"predicates.isOutbox.pattern": "outbox.event.*"},
        shows=lambda place: place.raw() and not place.messages(),
    ),
    Ran(code="CC506", changes={"table.include.list": "outbox"}, also=("CC505",), shows=nothing),
    Ran(code="CC507", changes={"table.include.list": "{database}.{name}.outbox"}, shows=nothing),
    Ran(code="CC508", changes={"table.include.list": '"{name}"."outbox"'}, also=("CC523",), shows=nothing),
    Ran(code="CC510", changes={"schema.include.list": "another"}, shows=nothing),
    Ran(
        code="CC511",
        changes={"message.prefix.exclude.list": None, "heartbeat.action.query": None},
        fixed={"heartbeat.action.query": None},
        also=("CC610",),
        act=_message_and_event,
        shows=lambda place: any(place.name.encode() in (one.value or b"") for one in place.messages("message")),
    ),
    Ran(
        code="CC512",
        apart=True,
        changes={"message.prefix.exclude.list": None},
        shows=lambda place: len(place.messages("message")) > 2,
    ),
    Ran(
        code="CC515",
        prepare="insert into {name}.outbox (aggregatetype, aggregateid, payload) values ('order', '42', '{}')",
        changes={"snapshot.mode": "initial"},
        act=lambda place: place.event("later"),
        shows=arrives,
        instead=lambda place: place.messages("later"),
    ),
    Ran(
        code="CC519",
        changes={"provide.transaction.metadata": "true"},
        shows=lambda place: place.messages("transaction"),
    ),
    Ran(code="CC523", changes={"schema.exclude.list": "{name}"}, shows=nothing),
)
"""On PostgreSQL, a place each."""
