"""Which key of a spec an option of the connector comes from. Pure."""

_ROUTERS = ("transforms.EventRouter.", "transforms.MongoEventRouter.")
_FORM = "outbox.payload_type, outbox.format"
_COLUMN = "outbox.columns."
_OPTIONS = {
    "name": "name",
    "topic.prefix": "topic_prefix",
    "connector.class": "database.kind",
    "database.hostname": "database.host",
    "database.port": "database.port",
    "database.user": "database.user",
    "database.password": "database.password",
    "database.dbname": "database.name",
    "database.names": "database.name",
    "database.pdb.name": "database.pdb",
    "database.server.id": "database.server_id",
    "mongodb.connection.string": "database.connection_string",
    "slot.name": "database.slot",
    "publication.name": "database.publication",
    "table.include.list": "outbox.table",
    "collection.include.list": "outbox.table",
    "message.prefix.include.list": "outbox.mode",
    "message.prefix.exclude.list": "outbox.mode",
    "binary.handling.mode": "outbox.mode",
    "poll.interval.ms": "latency",
    "producer.override.linger.ms": "latency",
    "value.converter": _FORM,
    "value.converter.schemas.enable": _FORM,
    "value.converter.delegate.converter.type": _FORM,
    "topic.creation.default.partitions": "topics.partitions",
    "topic.creation.default.replication.factor": "topics.replication_factor",
    "topic.creation.default.retention.ms": "topics.retention",
    "topic.creation.heartbeat.include": "topics.name",
    "topic.creation.heartbeat.replication.factor": "topics.replication_factor",
    "schema.history.internal.kafka.topic": "history.topic",
    "schema.history.internal.kafka.bootstrap.servers": "history.bootstrap_servers",
}
_ROUTER_OPTIONS = {
    "predicate": "outbox.table",
    "route.by.field": f"{_COLUMN}aggregate_type",
    "route.topic.replacement": "topics.name",
    "table.field.event.id": f"{_COLUMN}id",
    "table.field.event.key": f"{_COLUMN}aggregate_id",
    "table.field.event.payload": f"{_COLUMN}payload",
    "table.field.event.timestamp": f"{_COLUMN}created_at",
    "table.fields.additional.placement": "outbox.headers",
    "table.expand.json.payload": "outbox.payload_type",
    "table.json.payload.null.behavior": "outbox.payload_type",
    "table.json.payload.empty.array.behavior": "outbox.payload_type",
    "route.tombstone.on.empty.payload": "outbox.payload_type",
}


def spec_key_of(option: str) -> str:
    """Return the key that sets an option, the dots between its parts; empty for what no key but ``overrides`` sets.

    Args:
        option: By today's name; a transform's has its class in the alias's place.
    """
    for router in _ROUTERS:
        if option.startswith(router):
            own = option.removeprefix(router).replace("collection.", "table.", 1)
            return _ROUTER_OPTIONS.get(own, "")
    return _OPTIONS.get(option, "")
