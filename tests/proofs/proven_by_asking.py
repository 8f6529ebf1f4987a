"""What a Connect worker refuses when it is asked, and in which words."""

from dataclasses import dataclass

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config_texts import find_in_text
from tests.proofs.proof import Proof

_R = "transforms.outbox."


@dataclass(frozen=True, kw_only=True)
class Answered(Proof):
    """A hazard that the worker's validation tells.

    Args:
        option: Where the worker finds it.
        says: What it says.
    """

    option: str
    says: str


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A document that is no configuration, and what the worker's REST API answers to it."""

    code: str
    document: str
    status: int
    says: str
    method: str = "PUT"

    def __str__(self) -> str:
        return self.code

    def codes(self) -> list[str]:
        """Return what the linter finds in the document."""
        _, findings = find_in_text(self.document, name="x.json")
        return [finding.code for finding in findings]


SENT = (
    Sent(code="CC002", document='{"topic.prefix": "orders",}', status=500, says="Unexpected character"),
    Sent(code="CC003", document="{}", status=400, says="contains no connector type"),
    Sent(
        code="CC004",
        document='{"connector.class": "PostgresConnector", "table.include.list": ["public.outbox"]}',
        status=500,
        says="Cannot deserialize value of type `java.lang.String`",
    ),
    Sent(
        code="CC005",
        document='{"name": "none", "config": {"connector.class": "PostgresConnector", "name": "orders"}}',
        method="POST",
        status=400,
        says="doesn't match connector name",
    ),
)

ANSWERED = (
    Answered(
        code="CC102",
        changes={"topic.prefix": None, "database.server.name": "orders"},
        option="topic.prefix",
        says="A value is required",
    ),
    Answered(code="CC104", changes={"snapshot.mode": "never"}, option="snapshot.mode", says="Value must be one of"),
    Answered(code="CC105", changes={"plugin.name": "pgoutptu"}, option="plugin.name", says="Value must be one of"),
    Answered(
        code="CC106",
        kind=DatabaseKind.MARIADB,
        changes={"database.server.id": None},
        option="database.server.id",
        says="A value is required",
    ),
    Answered(
        code="CC107",
        changes={"topic.prefix": "Größe", "predicates.isOutbox.pattern": ".*outbox"},
        option="topic.prefix",
        says="has invalid format",
    ),
    Answered(
        code="CC108",
        changes={"max.queue.size": "2048"},
        option="max.queue.size",
        says="Must be larger than the maximum batch size",
    ),
    Answered(
        code="CC109",
        changes={"poll.interval.ms": "0"},
        option="poll.interval.ms",
        says="A positive, non-zero integer value is expected",
    ),
    Answered(
        code="CC120",
        changes={"tasks.max": "0"},
        option="tasks.max",
        says="at least 1",
    ),
    Answered(
        code="CC121",
        changes={"database.password": "${file:/run/secrets/password}"},
        option="database.hostname",
        says="password authentication failed",
    ),
    Answered(
        code="CC118",
        changes={"snapshot.mode": "custom"},
        option="snapshot.mode.custom.name",
        says="custom",
    ),
    Answered(
        code="CC525",
        changes={"table.include.list": "{name}\\.(outbox"},
        option="table.include.list",
        says="regular expression",
    ),
    Answered(
        code="CC111",
        kind=DatabaseKind.MARIADB,
        changes={"database.server.id": "0"},
        option="database.server.id",
        says="A positive, non-zero long value is expected",
    ),
    Answered(
        code="CC211",
        changes={
            "transforms": "outbox,more",
        },
        option="transforms.more.type",
        says="Missing required configuration",
    ),
    Answered(
        code="CC212", changes={"transforms": "outbox,outbox"}, option="transforms", says="Duplicate alias provided"
    ),
    Answered(
        code="CC216",
        changes={"predicates.isOutbox.pattern": "orders\\.[public"},
        option="predicates.isOutbox.pattern",
        says="Invalid regex",
    ),
    Answered(
        code="CC218",
        changes={"transaction.boundary": "connector"},
        option="transaction.boundary",
        says="does not support connector-defined transaction boundaries",
    ),
    Answered(
        code="CC219",
        changes={"exactly.once.support": "required"},
        option="exactly.once.support",
        says="does not have exactly-once source support enabled",
    ),
    Answered(
        code="CC223",
        changes={f"{_R}type": "io.debezium.transforms.EventRouter"},
        option=f"{_R}type",
        says="could not be found",
    ),
    Answered(
        code="CC310",
        changes={f"{_R}route.tombstone.on.empty.payload": "yes"},
        option=f"{_R}route.tombstone.on.empty.payload",
        says="Expected value to be either true or false",
    ),
    Answered(
        code="CC415",
        changes={"value.converter": "io.debezium.converters.ByteBufferConverter"},
        option="value.converter",
        says="could not be found",
    ),
    Answered(
        code="CC509",
        changes={"table.exclude.list": "public.more"},
        option="table.exclude.list",
        says='"table.include.list" is already specified',
    ),
    Answered(
        code="CC603",
        changes={"slot.name": "Orders-Outbox"},
        option="slot.name",
        says="Valid replication slot name must contain only digits, lowercase characters and underscores",
    ),
)
"""Of one that is sent a worker says the same, with status 400."""
