"""A task's trace is explained in a sentence with a remedy; the messages are those of the real programs."""

import re

import pytest

from cdc_outbox.connect.client import ConnectorStatus, TaskStatus
from cdc_outbox.connect.wait import failure
from cdc_outbox.debezium.diagnosis import KNOWN_FAILURES, diagnosis_of

REJECTED = (
    "java.util.concurrent.RejectedExecutionException: Task x.KafkaSchemaHistory$$Lambda$2126/0x00@4265 rejected from "
    "java.util.concurrent.ThreadPoolExecutor@502125a4[Terminated, pool size = 0, completed tasks = 1]"
)
JAVA, KAFKA, CONNECT = "java", "org.apache.kafka.common.errors.", "org.apache.kafka.connect.errors.ConnectException: "
CONFIG, DEBEZIUM = "org.apache.kafka.common.config.ConfigException: ", "io.debezium.DebeziumException: "
PSQL = f"{CONNECT}An exception occurred in the change event producer. This connector will be stopped.\n\tat …\n"
PSQL += "Caused by: org.postgresql.util.PSQLException: "

CASES = (
    (f'{PSQL}FATAL: password authentication failed for user "me"', "password of the role me", "database.password"),
    (f'{PSQL}FATAL: password authentication failed for user "me"', "role me", "sends the text ${env:…} as the"),
    (
        f'{PSQL}FATAL: no pg_hba.conf entry for replication connection from host "::1"',
        "pg_hba.conf refuses",
        "replication",
    ),
    (f'{PSQL}FATAL: pg_hba.conf rejects connection for host "::1", user "me"', "pg_hba.conf refuses", "reload"),
    (f'{PSQL}FATAL: role "me" is not permitted to log in', "me cannot log in", "alter role me login"),
    (f'{PSQL}FATAL: role "me" does not exist', "role me does not exist", "--grants"),
    (f'{PSQL}FATAL: database "x" does not exist', "database x does not exist", "database.name"),
    (f'{PSQL}ERROR: replication slot "s" is active for PID 17', "reads the slot s (process 17)", "slot.name"),
    (f'{PSQL}ERROR: replication slot "s" does not exist', "slot s does not exist", "deploy-connector"),
    (f"{PSQL}ERROR: requested WAL segment 01 has already been removed", "removed WAL", "max_slot_wal_keep_size"),
    (f'{PSQL}ERROR: can no longer access replication slot "s"', "removed WAL", "--earlier-events"),
    (f'{PSQL}ERROR: can no longer get changes from replication slot "s"', "removed WAL", "--earlier-events"),
    (f"{PSQL}ERROR: all replication slots are in use", "All replication slots", "max_replication_slots"),
    (f"{PSQL}FATAL: number of requested standby connections exceeds x", "All WAL senders", "max_wal_senders"),
    (f"{PSQL}FATAL: permission denied to start WAL sender", "lacks REPLICATION", "rds_replication"),
    (f"{PSQL}ERROR: must be superuser or replication role to use it", "lacks REPLICATION", "alter role"),
    (f"{PSQL}FATAL: sorry, too many clients already", "further connections", "max_connections"),
    (f'{PSQL}ERROR: publication "p" does not exist', "publication", "cdc-outbox init"),
    (f"{PSQL}ERROR: permission denied for table outbox", "cannot read outbox", "--grants"),
    (f'{PSQL}ERROR: relation "public.outbox" does not exist', "outbox table of the spec", "outbox.table"),
    (f"{PSQL}The server does not support SSL.", "does not support it", "sslmode"),
    (f"{PSQL}Connection to db:5432 refused. Check that", "cannot reach the database", "listen_addresses"),
    (
        f"{PSQL}The connection attempt failed.\nCaused by: {JAVA}.net.UnknownHostException: db.x",
        "the host name db.x",
        "worker",
    ),
    (
        f"{PSQL}The connection attempt failed.\nCaused by: {JAVA}.net.UnknownHostException: ${{vault:db:host}}",
        "cannot be resolved",
        "config.providers",
    ),
    (f"{PSQL}FATAL: the database system is shutting down", "was restarting", "again"),
    (REJECTED, "checks of the schema history", "cdc-outbox restart"),
    ("This worker does not have exactly-once source support enabled.", "without exactly-once", "every worker"),
    (f"{DEBEZIUM}…, but this is no longer available on the server.", "older than the slot", "--earlier-events"),
    (f"{DEBEZIUM}The connector previously stopped while taking a snapshot, but", "was interrupted", "republish"),
    (f"{CONNECT}Failed to find any class that implements Connector and which name matches x.Y", "plugin", ".path"),
    (f"{JAVA}.lang.ClassNotFoundException: nowhere.Nobody", "class nowhere.Nobody", "plugin.path"),
    (
        "The 'database.hostname' value is invalid: ${env:HOTS} has invalid format (only",
        "cannot be resolved",
        "the variable",
    ),
    (
        "The 'database.hostname' value is invalid: ${env:HOST has invalid format (only",
        "no closing brace",
        "Add the brace",
    ),
    (f"{CONNECT}Field 'ts' is not of type INT64", "timestamp column", "timestamp without time zone"),
    (f"{CONNECT}Failed to write connector configuration to Kafka: ", "its own topics", "config.storage.topic"),
    ("Error writing connector configuration to Kafka", "its own topics", "config.storage.topic"),
    ("Request timed out. The worker is currently ensuring membership in the cluster", "its own topics", "brokers"),
    ("Worker was unable to handle this request and may be unable to handle other", "its own topics", "brokers"),
    (
        "IO Error trying to forward REST request: Idle timeout expired: 30000/30000 ms",
        "The leader",
        "config.storage.topic",
    ),
    ("IO Error trying to forward REST request: java.net.ConnectException", "cannot reach the leader", "advertised"),
    (f"{KAFKA}RecordTooLargeException: The message is 2 bytes", "larger than Kafka's limit", "max.message.bytes"),
    (f"{KAFKA}TopicAuthorizationException: Not authorized to access topics: [x]", "does not authorize", "ACL"),
    (f"{KAFKA}TimeoutException: Topic x not present in metadata after 60000 ms.", "topic", "topics.partitions"),
    (f"{KAFKA}TimeoutException: Failed to update metadata after 6 ms.", "cannot reach Kafka", "advertised.listeners"),
    (f"{PSQL}The server requested SCRAM-based authentication, but no password was provided.", "without a", "reference"),
    (f"{CONNECT}Postgres server wal_level property must be 'logical' but is: \"replica\"", "wal_level", "restart"),
    (f"{CONNECT}Publication autocreation is disabled, please create one", "publication", "cdc-outbox init"),
    (f"{PSQL}SSL error: PKIX path building failed", "does not trust the certificate", "ssl.truststore.location"),
    (f"{CONFIG}Could not load config provider vault", "cannot be resolved", "config.providers"),
    (f"{CONNECT}Unable to find payload field payload in event", "does not find a column", "cdc-outbox preflight"),
    (
        f"{KAFKA}SaslAuthenticationException: Authentication failed",
        "refuses the worker's credentials",
        "producer.override",
    ),
    (f"{KAFKA}InvalidReplicationFactorException: Unable to replicate", "topic does not exist", "replication_factor"),
    (f"{JAVA}.lang.OutOfMemoryError: Java heap space", "out of memory", "KAFKA_HEAP_OPTS"),
    (f"{CONFIG}Invalid value x for configuration y: z", "Invalid value x for configuration y: z", "overrides"),
)


@pytest.mark.parametrize(("trace", "sentence", "remedy"), CASES)
def test_a_known_trace_has_a_reason_and_a_remedy(trace: str, sentence: str, remedy: str) -> None:
    cause = diagnosis_of(trace)
    assert cause is not None
    assert sentence in cause.sentence
    assert remedy in cause.remedy
    assert re.fullmatch(r"[A-Z].*[.\w]", cause.sentence, re.DOTALL)
    assert "{" not in cause.sentence


def test_each_reason_is_given_by_some_trace() -> None:
    """One that stands behind another that says less would never be."""
    given = {next(known for known in KNOWN_FAILURES if known.pattern.search(trace)) for trace, *_ in CASES}
    assert set(KNOWN_FAILURES) - given == set()


def test_an_unknown_trace_is_left_as_it_is() -> None:
    status = ConnectorStatus("RUNNING", (TaskStatus(0, "FAILED", "java.lang.Boom"),))
    error = failure("orders: FAILED", status, hint="Look.")
    assert (str(error), error.hint, error.trace) == ("orders: FAILED", "Look.", "java.lang.Boom")


def test_a_known_one_becomes_the_errors_sentence_and_hint() -> None:
    trace = "Caused by: java.lang.ClassNotFoundException: nowhere.Nobody"
    error = failure("orders: FAILED", ConnectorStatus("RUNNING", (TaskStatus(0, "FAILED", trace),)))
    assert str(error).startswith("orders: FAILED. The worker does not have the class nowhere.Nobody")
    assert "plugin.path" in error.hint
