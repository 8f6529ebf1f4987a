"""Diagnose a failed task from the stack trace that Connect returns: one sentence and a remedy. Pure.

The patterns match English messages of PostgreSQL, its JDBC driver, Debezium, Connect and Kafka's clients. The first
match counts, so specific patterns are listed before general ones.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A sentence with the cause, and the remedy.

    Args:
        is_race: Whether a restart of the task cures it, because the failure depends on the timing of two threads.
    """

    sentence: str
    remedy: str
    is_race: bool = False


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A pattern with its diagnosis; braces contain names of the pattern's groups."""

    pattern: re.Pattern[str]
    sentence: str
    remedy: str
    is_race: bool = False


def _known(pattern: str, sentence: str, remedy: str, *, is_race: bool = False) -> KnownFailure:
    return KnownFailure(re.compile(pattern), sentence, remedy, is_race)


_OWN_TOPICS = (
    "Check that the brokers run, and that Connect's config topic (config.storage.topic) exists, with one partition and "
    "cleanup.policy=compact"
)

KNOWN_FAILURES = (
    _known(
        r'password authentication failed for user "(?P<role>[^"]*)"',
        "The database rejects the password of the role {role}.",
        "Set the role's password to the one that database.password refers to. The worker reads its environment when it "
        "starts. Without the variable, or without the config provider (config.providers), it sends the text ${env:…} "
        "as the password. In the local stack, `cdc-outbox stack restart connect-1 --env NAME` sets a variable.",
    ),
    _known(
        r"no password was provided",
        "The connector logs in without a password, and the database requires one.",
        "Set database.password in the spec to a reference that the worker resolves.",
    ),
    _known(
        r"no pg_hba\.conf entry for|pg_hba\.conf rejects",
        "The database's pg_hba.conf refuses the worker's address, this role, or connections without TLS.",
        "Add a line for the role, the database and the worker's address to pg_hba.conf, on old servers also one for "
        "`replication`, and reload the configuration. If the server requires TLS, set overrides: {database.sslmode: "
        "verify-full, database.sslrootcert: FILE}.",
    ),
    _known(
        r'role "(?P<role>[^"]*)" is not permitted to log in',
        "The role {role} cannot log in.",
        "Run `alter role {role} login`.",
    ),
    _known(
        r'role "(?P<role>[^"]*)" does not exist',
        "The role {role} does not exist.",
        "Create it: `cdc-outbox init SPEC --grants` prints the statements.",
    ),
    _known(
        r'database "(?P<name>[^"]*)" does not exist',
        "The database {name} does not exist on the server that the worker reaches.",
        "Correct database.name or database.host in the spec.",
    ),
    _known(
        r'replication slot "(?P<slot>[^"]*)" is active for PID (?P<pid>\d+)',
        "Another process reads the slot {slot} (process {pid}).",
        "Find the process in pg_stat_replication, usually another connector with the same slot.name, and stop it, "
        "or set another slot name for this pipeline.",
    ),
    _known(
        r"requested WAL segment \S+ has already been removed|can(?: no longer access"
        r"| no longer get changes from|not read "
        r"from logical) replication slot|This (?:replication )?slot has been invalidated",
        "The server has removed WAL that the slot needs, so the slot no longer contains all unread events.",
        "Run `cdc-outbox deploy-connector` again: it creates another slot, and --earlier-events republishes or skips "
        "these events. Raise max_slot_wal_keep_size to prevent this.",
    ),
    _known(
        r"but this is no longer available on the server",
        "Connect's offset is older than the slot's position: the slot was created again, or advanced, since then.",
        "Run `cdc-outbox deploy-connector` again: it compares the two, and --earlier-events republishes or skips the "
        "events between them.",
    ),
    _known(
        r"previously stopped while taking a snapshot",
        "Publishing the rows of the table was interrupted.",
        "Run `cdc-outbox deploy-connector` again, with --earlier-events republish.",
    ),
    _known(
        r'replication slot "(?P<slot>[^"]*)" does not exist',
        "The slot {slot} does not exist.",
        "Run `cdc-outbox deploy-connector` again: it creates the slot, and --earlier-events republishes or skips "
        "earlier events.",
    ),
    _known(
        r"all replication slots are in use",
        "All replication slots of the server are in use.",
        "Drop inactive slots (pg_replication_slots), or raise max_replication_slots and restart the server.",
    ),
    _known(
        r"number of requested standby connections exceeds|exceeds max_wal_senders",
        "All WAL senders of the server are in use.",
        "Raise max_wal_senders and restart the server, or disconnect unneeded clients (pg_stat_replication).",
    ),
    _known(
        r"permission denied to (?:start WAL sender|use replication slots|create replication slot)"
        r"|must be superuser or replication role",
        "The connector's role lacks REPLICATION.",
        "Run `alter role … replication`, or on RDS `grant rds_replication to …`; `cdc-outbox init SPEC --grants` "
        "prints all statements for the role.",
    ),
    _known(
        r"too many clients already|remaining connection slots are reserved|too many connections for (?:role"
        r"|database)",
        "The database refuses further connections.",
        "Close unneeded connections, or raise max_connections or the role's connection limit.",
    ),
    _known(
        r"wal_level property must be 'logical'|logical decoding requires \"?wal_level|Change \"wal_level\"",
        "The server's wal_level is not logical.",
        "Set wal_level to logical and restart the server.",
    ),
    _known(
        r'publication "(?P<name>[^"]*)" does not exist|Publication autocreation is disabled',
        "The connector's publication does not exist, or did not exist when the events were written.",
        "Run `cdc-outbox init` with the spec, and `cdc-outbox deploy-connector` again; if the slot is older than the "
        "publication, `cdc-outbox preflight` prints the remedy.",
    ),
    _known(
        r"permission denied for (?:table|relation|schema) (?P<name>\S+)",
        "The connector's role cannot read {name}.",
        "Run the statements that `cdc-outbox init SPEC --grants` prints.",
    ),
    _known(
        r'relation "(?P<name>[^"]*)" does not exist|No table filters found for filtered publication',
        "The outbox table of the spec does not exist.",
        "Run `cdc-outbox init` with the spec, or correct outbox.schema and outbox.table.",
    ),
    _known(
        r"The server does not support SSL",
        "The connector requires TLS, and the database does not support it.",
        "Enable TLS on the server, or correct database.sslmode.",
    ),
    _known(
        r"SSL error|unable to find valid certification path|PKIX path building failed",
        "The worker does not trust the certificate of the database or of a broker.",
        "Configure the certificate authority on the worker: database.sslrootcert, or ssl.truststore.location.",
    ),
    _known(
        r"(?:value is invalid: |UnknownHostException:? ?)\$\{[^}\s]*(?:\s|$)",
        "A reference in the configuration has no closing brace, so the worker does not resolve it.",
        "Add the brace, as in ${env:NAME}.",
    ),
    _known(
        r"Could not (?:find|load) (?:value for )?.*config provider|ConfigProvider|Failed to resolve.*\$\{"
        r"|not resolve(?:d)? variable|(?:value is invalid: |UnknownHostException:? ?)\$\{",
        "A reference in the configuration cannot be resolved: the worker lacks the config provider, the variable or "
        "the file.",
        "Enable the provider in the worker's configuration (config.providers), and set the variable or the file there.",
    ),
    _known(
        r"does not have exactly-once source support enabled",
        "The worker runs without exactly-once support.",
        "Set exactly.once.source.support to preparing and then to enabled on every worker, or remove "
        "exactly.once.support.",
    ),
    _known(
        r"UnknownHostException:? ?(?P<host>[\w.-]*)",
        "The worker cannot resolve the host name {host}.",
        "The worker resolves the name in its own network: correct database.host, or the variable that it refers to.",
    ),
    _known(
        r"Connection to (?P<place>\S+) refused|The connection attempt failed|Connect(?:ion)?(?: validation)? timed out"
        r"|NoRouteToHost",
        "The worker cannot reach the database.",
        "Check from the worker's network that the server runs, and check host, port, firewalls and listen_addresses.",
    ),
    _known(
        r"the database system is (?:starting up|shutting down|in recovery mode)"
        r"|terminating connection due to administrator command",
        "The database was restarting.",
        "Run the command again after the restart.",
    ),
    _known(
        r"Failed to find any class that implements Connector and which name matches (?P<name>[\w.]+)",
        "The worker does not have the connector's plugin.",
        "Install Debezium's plugin on every worker, in a folder of plugin.path, and restart the workers.",
    ),
    _known(
        r"ClassNotFoundException: (?P<name>[\w.$]+)|Class (?P<other>[\w.$]+) could not be found",
        "The worker does not have the class {name}, which the configuration names.",
        "Correct the name, or install the plugin on every worker, in a folder of plugin.path, and restart the workers.",
    ),
    _known(
        r"Field 'ts' is not of type INT64|Unsupported type .*timestamp",
        "The timestamp column has a type that the EventRouter does not support, such as timestamptz.",
        "Change it to `timestamp without time zone`: `cdc-outbox preflight` prints the statement.",
    ),
    _known(
        r"Unable to find payload field|payload field .* (?:not|missing)|Unable to find (?P<name>\S+) field",
        "The EventRouter does not find a column that its configuration names.",
        "Compare the table with the spec: `cdc-outbox preflight` names the column.",
    ),
    _known(
        r"ConfigException: (?P<reason>[^\n]{1,200})",
        "Connect refuses the value of an option: {reason}",
        "Correct the option in the spec's overrides; `cdc-outbox lint` finds most of these errors.",
    ),
    _known(
        r"RecordTooLargeException|max\.request\.size|larger than the maximum request size",
        "An event is larger than Kafka's limit.",
        "Raise max.message.bytes of the topic and producer.override.max.request.size in overrides, or write "
        "smaller events.",
    ),
    _known(
        r"TopicAuthorizationException|ClusterAuthorizationException|GroupAuthorizationException"
        r"|TransactionalIdAuthorization",
        "Kafka does not authorize the worker to write to a topic.",
        "Grant the worker's user the ACLs for the pipeline's topics, or check the credentials in producer.override.",
    ),
    _known(
        r"SaslAuthenticationException|SslAuthenticationException",
        "Kafka refuses the worker's credentials.",
        "Correct the credentials in the worker's configuration, or in the connector's producer.override.",
    ),
    _known(
        r"UnknownTopicOrPartitionException|not present in metadata|InvalidReplicationFactorException"
        r"|Unable to create topic",
        "The topic does not exist and could not be created.",
        "Create the topic beforehand, or correct topics.partitions and topics.replication_factor in the spec.",
    ),
    _known(
        r"trying to forward REST request: .*[Tt]imeout",
        "The leader of the Connect cluster did not answer the worker.",
        f"{_OWN_TOPICS}; then read the leader's log.",
    ),
    _known(
        r"trying to forward REST request",
        "The worker cannot reach the leader of the Connect cluster.",
        "If the leader has failed, wait until another worker leads. Otherwise check that workers reach each other at "
        "rest.advertised.host.name and its port.",
    ),
    _known(
        r"config topic|(?:task|connector|root) configurations? to Kafka|target state to Kafka|read to end of log"
        r"|Request timed out\. The worker|unable to handle this request",
        "Connect cannot write or read its own topics in Kafka.",
        f"{_OWN_TOPICS}; then read the worker's log.",
    ),
    _known(
        r"Failed to update metadata after|Timeout expired (?:while|before)|TimeoutException|Disconnected"
        r"|BrokerNotAvailable",
        "The worker cannot reach Kafka.",
        "Check that the brokers run, and that the worker can connect to bootstrap.servers and advertised.listeners.",
    ),
    # Debezium checks the topic twice at a start, and shuts the thread pool down when the first check ends.
    _known(
        r"KafkaSchemaHistory\S* rejected from java\.util\.concurrent\.ThreadPoolExecutor",
        "Debezium shut down the thread pool for checks of the schema history's topic too early, a race in Debezium.",
        "Restart the connector with `cdc-outbox restart`.",
        is_race=True,
    ),
    _known(
        r"OutOfMemoryError",
        "The worker ran out of memory.",
        "Give it more memory (KAFKA_HEAP_OPTS), or lower max.queue.size in overrides; then restart the worker.",
    ),
)


def diagnosis_of(trace: str) -> Diagnosis | None:
    """Return the diagnosis of a stack trace, ``None`` if no pattern matches."""
    for known in KNOWN_FAILURES:
        found = known.pattern.search(trace)
        if found is not None:
            names = {name: value for name, value in found.groupdict().items() if value}
            names.setdefault("name", names.get("other", "…"))
            return Diagnosis(_filled(known.sentence, names), _filled(known.remedy, names), known.is_race)
    return None


def _filled(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "…"), text)
