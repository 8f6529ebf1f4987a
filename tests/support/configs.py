"""Connector configurations for the linter: one of each kind that is clean."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config_texts import find_configs
from cdc_outbox.debezium.lint import NEWEST, Config, Version
from cdc_outbox.text_files.document import Document
from cdc_outbox.text_files.json_text import read_json

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
BINARY = "io.debezium.converters.BinaryDataConverter"
ROUTER = "io.debezium.transforms.outbox.EventRouter"
MONGO_ROUTER = "io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter"
DECODER = "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent"
TOPIC_NAMES = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"

_RENDERED: dict[str, str] = json.loads((Path(__file__).parents[1] / "unit/golden/orders.json").read_text())
_HEARTBEATS = ("topic.creation.groups", "topic.creation.heartbeat.")
# Without a topic of its own for heartbeats, and a function that only `init` makes.
_POSTGRESQL = {option: value for option, value in _RENDERED.items() if not option.startswith(_HEARTBEATS)} | {
    "heartbeat.action.query": "select pg_logical_emit_message(false, 'cdc-outbox.heartbeat', '')"
}

_COMMON = {
    "name": "orders",
    "tasks.max": "1",
    "topic.prefix": "orders",
    "database.hostname": "database",
    "database.user": "connector",
    "database.password": "${env:PASSWORD}",
    "snapshot.mode": "no_data",
    "skipped.operations": "u,d,t",
    "poll.interval.ms": "10",
    "heartbeat.interval.ms": "10000",
    "key.converter": STRING,
    "value.converter": STRING,
    "predicates": "isOutbox",
    "predicates.isOutbox.type": TOPIC_NAMES,
    "transforms": "outbox",
    "transforms.outbox.type": ROUTER,
    "transforms.outbox.predicate": "isOutbox",
    "transforms.outbox.table.field.event.timestamp": "created_at",
    "transforms.outbox.table.fields.additional.placement": "type:header:eventType",
}
_COMMON |= {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "-1"}
_HISTORY = {
    "schema.history.internal.kafka.topic": "history.orders",
    "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
    "schema.history.internal.store.only.captured.tables.ddl": "true",
    "include.schema.changes": "false",
}
_BINLOG = {
    "database.server.id": "4711",
    "table.include.list": "orders\\.outbox",
    "snapshot.locking.mode": "none",
    "predicates.isOutbox.pattern": "orders\\.orders\\.outbox",
}

CLEAN: Mapping[DatabaseKind, dict[str, str]] = {
    DatabaseKind.POSTGRESQL: _POSTGRESQL,
    DatabaseKind.MYSQL: {**_COMMON, **_HISTORY, **_BINLOG, "connector.class": DatabaseKind.MYSQL.connector_class},
    DatabaseKind.MARIADB: {
        **_COMMON,
        **_HISTORY,
        **_BINLOG,
        "connector.class": DatabaseKind.MARIADB.connector_class,
        "binlog.buffer.size": "5000000",
    },
    DatabaseKind.SQLSERVER: {
        **_COMMON,
        **_HISTORY,
        "connector.class": DatabaseKind.SQLSERVER.connector_class,
        "database.names": "orders",
        "table.include.list": "dbo\\.outbox",
        "predicates.isOutbox.pattern": "orders\\.orders\\.dbo\\.outbox",
    },
    DatabaseKind.ORACLE: {
        **_COMMON,
        **_HISTORY,
        "connector.class": DatabaseKind.ORACLE.connector_class,
        "database.dbname": "ORCLCDB",
        "table.include.list": "APP\\.OUTBOX",
        "lob.enabled": "true",
        "predicates.isOutbox.pattern": "orders\\.APP\\.OUTBOX",
        "transforms.outbox.table.field.event.timestamp": "CREATED_AT",
        "transforms.outbox.table.fields.additional.placement": "TYPE:header:eventType",
    },
    DatabaseKind.MONGODB: {
        **{option: value for option, value in _COMMON.items() if not option.startswith(("database", "transforms."))},
        "connector.class": DatabaseKind.MONGODB.connector_class,
        "mongodb.connection.string": "${env:MONGODB}",
        "collection.include.list": "orders\\.outbox",
        "predicates.isOutbox.pattern": "orders\\.orders\\.outbox",
        "transforms.outbox.type": MONGO_ROUTER,
        "transforms.outbox.predicate": "isOutbox",
        "transforms.outbox.collection.field.event.timestamp": "created_at",
        "transforms.outbox.collection.fields.additional.placement": "type:header:eventType",
    },
}


def changed(kind: DatabaseKind, changes: Mapping[str, str | None]) -> dict[str, str]:
    options: dict[str, str | None] = {**CLEAN[kind], **changes}
    return {option: value for option, value in options.items() if value is not None}


def document_of(content: Any, name: str = "x.json") -> Document:
    return read_json(json.dumps(content, indent=1), name=name)


def config_of(options: Mapping[str, str], *, name: str = "x.json", version: Version = NEWEST) -> Config:
    [config], findings = find_configs(document_of(options, name), version)
    assert findings == []
    return config


D5 = """\
{
  "name": "outbox-connector",
  "config": {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "database.hostname": "postgres",
    "database.port": "5432",
    "database.user": "debezium",
    "database.password": "${secrets:postgres-password}",
    "database.dbname": "app",
    "database.server.name": "app",
    "table.include.list": "public.outbox",
    "transforms": "outbox",
    "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "transforms.outbox.table.field.event.id": "id",
    "transforms.outbox.table.field.event.key": "aggregate_id",
    "transforms.outbox.table.field.event.type": "event_type",
    "transforms.outbox.table.field.event.payload": "payload",
    "transforms.outbox.route.by.field": "aggregate_type",
    "transforms.outbox.route.topic.replacement": "${routedByValue}-events"
  }
}
"""


PUBLIC_CONFIGS = Path(__file__).parents[1] / "data" / "public"
