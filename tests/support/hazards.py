"""What each rule of the linter is about: a clean configuration, what is changed in it, and where that is found."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_outbox.connect.lint import NEWEST, Config, Kind, Version
from tests.support.configs import BINARY, DECODER, JSON, MONGO_ROUTER, ROUTER, STRING, changed, config_of

EMPTY: Mapping[str, str | None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A clean configuration, what is changed in it, and where the finding shall stand.

    Args:
        changes: Options by their names; ``None`` takes one away.
    """

    code: str
    at: str
    changes: Mapping[str, str | None] = field(default_factory=dict)
    kind: Kind = Kind.POSTGRESQL
    version: Version = NEWEST

    def __str__(self) -> str:
        return f"{self.code}-{self.kind.name.lower()}-{self.at}"

    def config(self) -> Config:
        return config_of(changed(self.kind, self.changes), version=self.version)


def _case(
    code: str, at: str, value: str | None, kind: Kind = Kind.POSTGRESQL, more: Mapping[str, str | None] = EMPTY
) -> Case:
    return Case(code=code, at=at, kind=kind, changes={at: value, **more})


_R, _T = "transforms.outbox.", "transforms.outbox.table."
_M = "transforms.outbox.collection."
_P = "producer.override."
_TYPE = f"{_R}type"

CASES = (
    _case("CC101", "slot.nam", "x"),
    _case("CC101", "database.hostnme", "x", Kind.MYSQL),
    _case("CC101", "publication.name", "x", Kind.MARIADB),
    Case(code="CC102", at="database.server.name", changes={"topic.prefix": None, "database.server.name": "orders"}),
    _case("CC102", "database.history.kafka.topic", "h", Kind.MYSQL, more={"schema.history.internal.kafka.topic": None}),
    _case("CC103", "snapshot.new.tables", "parallel", Kind.MYSQL),
    _case("CC103", "database.server.name", "orders"),
    _case("CC103", "database.history.kafka.topic", "h"),
    _case("CC104", "snapshot.mode", "schema_only", Kind.MYSQL),
    _case("CC104", "snapshot.mode", "never"),
    _case("CC104", "plugin.name", "wal2json"),
    _case("CC105", "plugin.name", "pgoutptu"),
    _case("CC105", "decimal.handling.mode", "text", Kind.ORACLE),
    _case("CC105", "snapshot.mode", "no_dta", Kind.MONGODB),
    _case("CC106", "topic.prefix", None),
    _case("CC106", "database.server.id", None, Kind.MARIADB),
    _case("CC106", "database.names", None, Kind.SQLSERVER),
    _case("CC106", "mongodb.connection.string", None, Kind.MONGODB),
    _case("CC106", "database.hostname", None, Kind.ORACLE),
    _case("CC107", "topic.prefix", "Größe"),
    _case("CC108", "max.queue.size", "2048"),
    _case("CC108", "max.batch.size", "8192"),
    _case("CC109", "poll.interval.ms", "0"),
    _case("CC110", "poll.interval.ms", None),
    _case("CC114", "poll.dispatch.interval.ms", "100"),
    _case("CC111", "database.server.id", "0", Kind.MYSQL),
    _case("CC112", "schema.history.internal.kafka.topic", None, Kind.SQLSERVER),
    _case("CC113", "database.password", "hunter2"),
    _case("CC113", "mongodb.connection.string", "mongodb://u:hunter2@h/", Kind.MONGODB),
    _case("CC113", "value.converter.basic.auth.user.info", "u:hunter2"),
    _case("CC115", "database.sslmode", "require"),
    _case("CC115", "database.ssl.mode", "preferred", Kind.MYSQL),
    _case("CC115", "database.ssl.mode", "trust", Kind.MARIADB),
    _case("CC115", "driver.trustServerCertificate", "true", Kind.SQLSERVER),
    _case("CC115", "mongodb.ssl.invalid.hostname.allowed", "true", Kind.MONGODB),
    _case("CC116", f"{_P}security.protocol", "SASL_PLAINTEXT"),
    _case("CC116", f"{_P}ssl.endpoint.identification.algorithm", ""),
    _case("CC116", "schema.history.internal.consumer.security.protocol", "PLAINTEXT", Kind.MARIADB),
    _case("CC201", "errors.tolerance", "all"),
    _case("CC202", "event.processing.failure.handling.mode", "warn"),
    _case("CC202", "inconsistent.schema.handling.mode", "skip", Kind.MYSQL),
    _case("CC203", f"{_P}acks", "1"),
    Case(
        code="CC204",
        at=f"{_P}max.in.flight.requests.per.connection",
        changes={f"{_P}max.in.flight.requests.per.connection": "2", f"{_P}enable.idempotence": None},
    ),
    _case("CC205", f"{_P}retries", "0"),
    _case("CC206", f"{_P}partitioner.class", "x.Partitioner"),
    _case("CC206", f"{_P}partitioner.ignore.keys", "true"),
    _case("CC207", f"{_P}transactional.id", "x"),
    _case("CC208", f"{_P}delivery.timeout.ms", "120000"),
    _case("CC209", "tasks.max", "2", Kind.MYSQL),
    _case("CC210", "tasks.max", "2"),
    _case("CC211", _TYPE, None),
    _case("CC212", "transforms", "outbox,outbox"),
    Case(code="CC213", at="transforms.other.type", changes={"transforms.other.type": ROUTER}),
    _case("CC214", f"{_R}predicate", "isOutbx"),
    _case("CC215", "predicates", "isOutbox,isHeartbeat", more={"predicates.isHeartbeat.type": "x"}),
    _case("CC216", "predicates.isOutbox.pattern", "orders\\.[public"),
    _case("CC216", "predicates.isOutbox.pattern", None),
    _case("CC217", "internal.key.converter", JSON),
    _case("CC218", "transaction.boundary", "connector"),
    _case("CC219", "exactly.once.support", "required"),
    _case("CC220", f"{_P}sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required;"),
    Case(
        code="CC221",
        at="transforms.add.type",
        changes={
            "transforms": "outbox,add",
            "transforms.add.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        },
    ),
    Case(
        code="CC222",
        at="transforms",
        changes={
            "transforms": "unwrap,outbox",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        },
    ),
    _case("CC223", _TYPE, "io.debezium.transforms.EventRouter"),
    _case("CC223", "connector.class", "io.debezium.connector.postgresql.PostgresConector"),
    _case("CC224", "connector.class", "io.confluent.connect.jdbc.JdbcSourceConnector"),
    _case("CC225", "errors.deadletterqueue.topic.name", "x"),
    _case("CC226", "predicates.isOutbox.patern", "x"),
    _case(
        "CC226",
        "transforms.decode.fields.null.includ",
        "x",
        more={"transforms": "outbox,decode", "transforms.decode.type": DECODER},
    ),
    _case("CC251", "topic.creation.default.partitions", None),
    _case("CC252", "topic.creation.events.include", None, more={"topic.creation.groups": "events"}),
    _case("CC253", "topic.creation.events.include", ".*"),
    _case("CC254", "topic.creation.events.include", "[a", more={"topic.creation.groups": "events"}),
    _case("CC255", "topic.creation.default.cleanup.policy", "compact"),
    _case("CC256", "topic.creation.default.replication.factor", "1"),
    _case("CC257", "topic.creation.default.partitions", "1"),
    Case(
        code="CC258",
        at="topic.creation.default.partitions",
        kind=Kind.MYSQL,
        changes={"topic.creation.default.partitions": None, "topic.creation.default.replication.factor": None},
    ),
    _case("CC301", f"{_T}field.payload", "payload"),
    _case("CC301", f"{_M}json.payload.null.behavior", "ignore", Kind.MONGODB),
    _case("CC302", f"{_T}field.event.type", "event_type"),
    _case("CC303", f"{_T}fields.additional.placement", "type"),
    _case("CC303", f"{_T}fields.additional.placement", "a:header:b:c"),
    _case("CC303", f"{_T}fields.additional.placement", ""),
    _case("CC303", f"{_T}fields.additional.placement", "a:header,,b:header"),
    _case("CC304", f"{_T}fields.additional.placement", "type:bogus"),
    _case("CC305", f"{_T}fields.additional.placement", "id:header"),
    _case("CC305", f"{_T}fields.additional.placement", "a:header:x,b:header:x"),
    _case("CC306", f"{_T}fields.additional.placement", "a:envelope:payload"),
    _case("CC307", f"{_T}fields.additional.placement", "a:partition,b:partition"),
    _case("CC307", f"{_T}fields.additional.placement", "a:partition:x"),
    _case("CC308", f"{_T}fields.additional.placement", "a:Partition"),
    _case("CC309", f"{_T}op.invalid.behavior", "nope"),
    _case("CC309", f"{_M}field.additional.missing", "skip", Kind.MONGODB),
    _case("CC310", f"{_R}route.tombstone.on.empty.payload", "yes"),
    _case("CC311", f"{_R}route.topic.regex", " [[a-z]"),
    _case("CC312", f"{_R}route.topic.replacement", "x.${nogroup}"),
    _case("CC312", f"{_R}route.topic.replacement", "x.$2"),
    _case("CC312", f"{_R}route.topic.replacement", "x.$"),
    Case(
        code="CC312",
        at=f"{_R}route.topic.regex",
        changes={f"{_R}route.topic.regex": "(?<other>.*)", f"{_R}route.topic.replacement": None},
    ),
    _case("CC313", f"{_R}route.topic.replacement", "events/${routedByValue}"),
    _case("CC313", f"{_R}route.topic.replacement", "x" * 250),
    _case("CC314", f"{_R}route.topic.replacement", "events"),
    _case("CC315", f"{_R}route.topic.replacement", "${routedByValue}"),
    _case("CC316", f"{_R}route.topic.regex", "(?<routedByValue>[a-z]+)"),
    _case("CC317", f"{_T}field.event.key", "id"),
    _case("CC318", f"{_T}field.event.key", ""),
    _case("CC319", f"{_T}field.event.schema.version", "version"),
    Case(
        code="CC320",
        at=f"{_T}field.event.schema.version",
        changes={
            f"{_T}field.event.schema.version": "version",
            f"{_T}expand.json.payload": "true",
            f"{_T}fields.additional.placement": "type:envelope",
        },
    ),
    _case("CC321", f"{_T}expand.json.payload", "true"),
    _case("CC321", f"{_M}expand.json.payload", "true", Kind.MONGODB),
    Case(
        code="CC322",
        at=f"{_R}field.name.adjustment.mode",
        changes={f"{_T}expand.json.payload": "true", f"{_R}field.name.adjustment.mode": "avro"},
    ),
    _case("CC323", f"{_T}json.payload.null.behavior", "optional_bytes"),
    Case(
        code="CC324",
        at=f"{_T}fields.additional.error.on.missing",
        changes={f"{_T}fields.additional.error.on.missing": "false", f"{_T}field.additional.missing": None},
    ),
    Case(
        code="CC325",
        at=f"{_T}field.additional.missing",
        changes={f"{_T}field.additional.missing": "ignore", f"{_T}fields.additional.error.on.missing": None},
        version=(3, 5),
    ),
    _case("CC326", _TYPE, ROUTER, Kind.MONGODB),
    _case("CC327", _TYPE, MONGO_ROUTER),
    _case("CC328", f"{_M}op.invalid.behavior", "fatal", Kind.MONGODB),
    _case("CC329", f"{_T}op.invalid.behavior", "fatal"),
    Case(
        code="CC330",
        at="transforms",
        changes={"transforms": "first,outbox", "transforms.first.type": ROUTER},
    ),
    _case("CC331", f"{_T}field.event.payload", "payload", Kind.ORACLE),
    _case("CC331", f"{_T}fields.additional.placement", "type:header", Kind.ORACLE),
    _case("CC332", "skipped.operations", "c,u"),
    _case("CC333", "skipped.operations", "u,d"),
    _case("CC334", "time.precision.mode", "connect"),
    _case("CC335", f"{_T}field.event.timestamp", None),
    _case("CC336", "column.exclude.list", "public.outbox.payload"),
    _case("CC336", "column.include.list", "public.outbox.id"),
    _case("CC401", "value.converter", None),
    _case("CC402", "key.converter", None),
    _case("CC403", "key.converter", JSON),
    _case("CC404", "key.converter", JSON, more={"key.converter.schemas.enable": "false"}),
    _case("CC405", "value.converter", JSON),
    _case("CC406", "value.converter", STRING, more={f"{_T}expand.json.payload": "true"}),
    _case("CC407", "value.converter", BINARY, more={f"{_T}fields.additional.placement": "type:envelope"}),
    _case("CC408", "value.converter", BINARY),
    _case("CC409", "value.converter.delegate.converter.schemas.enable", "false"),
    _case("CC410", "binary.handling.mode", "base64", more={"value.converter": BINARY}),
    _case("CC411", "value.converter", BINARY),
    _case("CC412", "value.converter", "io.debezium.converters.ByteArrayConverter"),
    _case("CC413", "value.converter", JSON),
    _case(
        "CC414", "value.converter", "io.confluent.connect.avro.AvroConverter", more={f"{_T}expand.json.payload": "true"}
    ),
    _case("CC415", "value.converter", "io.debezium.converters.ByteBufferConverter"),
    _case("CC415", "value.converter", "io.debezium.converters.BinaryDataConvertor"),
    _case("CC416", "header.converter", JSON),
    _case("CC420", "header.converter", "org.apache.kafka.connect.converters.ByteArrayConverter"),
    _case("CC420", "header.converter", "org.apache.kafka.connect.converters.LongConverter", Kind.MYSQL),
    _case("CC420", "header.converter", BINARY, more={"header.converter.delegate.converter.type": STRING}),
    _case(
        "CC417",
        "value.converter",
        "io.confluent.connect.avro.AvroConverter",
        more={f"{_T}fields.additional.placement": "type:envelope"},
    ),
    _case("CC501", "table.include.list", None, more={f"{_R}predicate": None}),
    _case("CC502", "table.include.list", "public.outbox,public.heartbeat", more={f"{_R}predicate": None}),
    _case("CC503", "signal.data.collection", "public.signals", more={f"{_R}predicate": None}),
    _case("CC504", "table.include.list", "public\\..*", more={f"{_R}predicate": None}),
    _case("CC504", "table.include.list", "public.a,public.b", more={f"{_R}predicate": None}),
    _case("CC505", "predicates.isOutbox.pattern", "outbox.event.*"),
    _case("CC505", "predicates.isOutbox.pattern", "orders\\.dbo\\.outbox", Kind.SQLSERVER),
    _case("CC506", "table.include.list", "outbox"),
    _case("CC507", "table.include.list", "orders.public.outbox"),
    _case("CC508", "table.include.list", '"public"."Outbox"'),
    _case("CC509", "table.exclude.list", "public.x"),
    _case("CC510", "schema.include.list", "orders"),
    _case("CC510", "database.include.list", "shop", Kind.MYSQL),
    Case(
        code="CC511",
        at="message.prefix.exclude.list",
        changes={"message.prefix.exclude.list": None, "heartbeat.action.query": None},
    ),
    Case(code="CC512", at="heartbeat.action.query", changes={"message.prefix.exclude.list": None}),
    _case("CC513", "heartbeat.action.query", "insert into heartbeat values (1)"),
    Case(code="CC514", at="heartbeat.action.query", changes={"heartbeat.interval.ms": "0"}),
    _case("CC515", "snapshot.mode", "initial"),
    _case("CC515", "snapshot.mode", None, Kind.MYSQL),
    _case("CC516", "snapshot.mode", "always"),
    _case("CC517", "snapshot.mode", "initial_only"),
    Case(
        code="CC518",
        at="provide.transaction.metadata",
        changes={"provide.transaction.metadata": "true", f"{_T}field.additional.missing": None},
        version=(3, 6),
    ),
    _case("CC519", "provide.transaction.metadata", "true"),
    Case(
        code="CC520",
        at="transforms",
        changes={"transforms": "outbox,decode", "transforms.decode.type": DECODER},
    ),
    Case(
        code="CC521",
        at=f"{_T}field.event.timestamp",
        changes={"transforms": "decode,outbox", "transforms.decode.type": DECODER},
    ),
    Case(
        code="CC522",
        at="transforms.decode.fields.null.include",
        changes={
            "transforms": "decode,outbox",
            "transforms.decode.type": DECODER,
            f"{_T}field.additional.missing": None,
        },
    ),
    _case("CC601", "plugin.name", None),
    _case("CC602", "slot.name", None),
    _case("CC603", "slot.name", "Orders-Outbox"),
    _case("CC603", "slot.name", "x" * 64),
    _case("CC604", "publication.name", None),
    _case("CC605", "publication.autocreate.mode", None),
    _case("CC606", "publication.name", "ü" * 32),
    _case("CC607", "heartbeat.interval.ms", None),
    _case("CC608", "slot.drop.on.stop", "true"),
    _case("CC609", "flush.lsn.source", "false"),
    _case("CC610", "heartbeat.action.query", None),
    _case("CC612", "lsn.flush.mode", "connector_and_driver"),
    _case("CC619", "offset.mismatch.strategy", "trust_offset"),
    _case("CC619", "offset.mismatch.strategy", "trust_slot"),
    _case("CC619", "offset.mismatch.strategy", "trust_greater_lsn"),
    _case("CC613", "lsn.flush.mode", "manual"),
    _case("CC614", "status.update.interval.ms", "60000"),
    _case("CC615", "lsn.flush.timeout.action", "ignore"),
    _case("CC616", "table.include.list", "public.outbox_2026_11"),
    _case("CC617", "publication.autocreate.mode", "no_tables"),
    _case("CC618", "publication.autocreate.mode", "filtered"),
    _case("CC701", "schema.history.internal", "io.debezium.relational.history.MemorySchemaHistory", Kind.MYSQL),
    _case("CC702", "schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory", Kind.MARIADB),
    _case("CC703", "schema.history.internal.store.only.captured.tables.ddl", None, Kind.ORACLE),
    _case("CC704", "schema.history.internal.skip.unparseable.ddl", "true", Kind.MYSQL),
    _case("CC705", "include.schema.changes", None, Kind.MYSQL),
    _case("CC706", "schema.history.internal.kafka.topic", "orders", Kind.MYSQL, more={"include.schema.changes": None}),
    _case("CC707", "snapshot.mode", "recovery", Kind.MYSQL),
    _case("CC708", "snapshot.locking.mode", None, Kind.MYSQL),
    _case("CC709", "heartbeat.interval.ms", None, Kind.MONGODB),
    Case(code="CC801", at="snapshot.isolation.mode", kind=Kind.SQLSERVER, changes={"snapshot.mode": "initial"}),
    _case("CC802", "lob.enabled", None, Kind.ORACLE),
    _case("CC803", "log.mining.transaction.retention.ms", "3600000", Kind.ORACLE),
    _case("CC804", "log.mining.strategy", "redo_log_catalog", Kind.ORACLE),
    _case("CC805", "heartbeat.action.query", "select 1", Kind.MONGODB),
    _case("CC806", "cursor.oversize.handling.mode", "skip", Kind.MONGODB),
    Case(code="CC807", at="collection.include.list", kind=Kind.MONGODB, changes={"filters.match.mode": "literal"}),
    _case("CC808", f"{_M}expand.json.payload", None, Kind.MONGODB),
    _case("CC809", "collection.include.list", None, Kind.MONGODB),
)
"""At least one for each rule."""
