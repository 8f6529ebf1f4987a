"""Why a task failed, in one sentence with a remedy, from the trace that Connect shows. Pure.

The patterns are what PostgreSQL, its JDBC driver, Debezium, Connect and Kafka's clients say in English. The first that
is found counts, so what says more stands before what says less.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One sentence of what is the case, and one of what to do."""

    sentence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """What is said, and what it means; names of the pattern's groups stand in braces."""

    pattern: re.Pattern[str]
    sentence: str
    remedy: str


def _known(pattern: str, sentence: str, remedy: str) -> KnownFailure:
    return KnownFailure(re.compile(pattern), sentence, remedy)


_OWN_TOPICS = (
    "Look whether the brokers run, and whether Connect's config topic (config.storage.topic) is still there, with one "
    "partition and cleanup.policy=compact"
)

KNOWN_FAILURES = (
    _known(
        r'password authentication failed for user "(?P<role>[^"]*)"',
        "The database refuses the password of the role {role}.",
        "Give the role the password that database.password refers to. The worker reads its variables when it starts. "
        "If it lacks the variable, or the config provider (config.providers), it sends the text ${env:…} itself as the "
        "password. In the local stack, `cdc-outbox stack restart connect-1 --env NAME` gives the worker a variable.",
    ),
    _known(
        r"no password was provided",
        "The connector logs in without a password, and the database wants one.",
        "Set database.password in the spec to a reference that the worker resolves.",
    ),
    _known(
        r"no pg_hba\.conf entry for|pg_hba\.conf rejects",
        "The database's pg_hba.conf lets no client in from where the worker runs, or not as this role, or not "
        "without TLS.",
        "Add a line for role, database and the worker's address to pg_hba.conf, one for `replication` if it is "
        "that old, and reload the server. Where it wants TLS, set overrides: {database.sslmode: verify-full, "
        "database.sslrootcert: FILE}.",
    ),
    _known(
        r'role "(?P<role>[^"]*)" is not permitted to log in',
        "The role {role} may not log in.",
        "Run `alter role {role} login`.",
    ),
    _known(
        r'role "(?P<role>[^"]*)" does not exist',
        "The role {role} does not exist.",
        "Make it: `cdc-outbox init --grants` prints how.",
    ),
    _known(
        r'database "(?P<name>[^"]*)" does not exist',
        "The database {name} does not exist on the server that the worker reaches.",
        "Correct database.name or database.host in the spec.",
    ),
    _known(
        r'replication slot "(?P<slot>[^"]*)" is active for PID (?P<pid>\d+)',
        "Another process reads the slot {slot} already (process {pid}).",
        "Find who it is in pg_stat_replication, usually another connector with the same slot.name, and stop it, "
        "or give this pipeline a slot of its own.",
    ),
    _known(
        r"requested WAL segment \S+ has already been removed|can(?: no longer access"
        r"| no longer get changes from|not read "
        r"from logical) replication slot|This (?:replication )?slot has been invalidated",
        "The server has removed WAL that the slot was to keep, so events that were not read yet are not in the "
        "slot any more.",
        "Run `cdc-outbox deploy-connector` again: it makes the slot anew and asks with --earlier-events what "
        "is to become of "
        "those events. Raise max_slot_wal_keep_size so that it does not happen again.",
    ),
    _known(
        r"but this is no longer available on the server",
        "Connect's offset is older than what the slot holds: the slot was made anew, or moved, since it was stored.",
        "Run `cdc-outbox deploy-connector` again: it compares the two and asks with --earlier-events what is to "
        "become of the events between them.",
    ),
    _known(
        r"previously stopped while taking a snapshot",
        "The rows of the table were being published, and that was cut off.",
        "Run `cdc-outbox deploy-connector` again, with --earlier-events republish.",
    ),
    _known(
        r'replication slot "(?P<slot>[^"]*)" does not exist',
        "The slot {slot} does not exist any more.",
        "Run `cdc-outbox deploy-connector` again: it makes the slot and asks what is to become of earlier events.",
    ),
    _known(
        r"all replication slots are in use",
        "The server has no replication slot left.",
        "Drop slots without a reader (pg_replication_slots), or raise max_replication_slots and restart the server.",
    ),
    _known(
        r"number of requested standby connections exceeds|exceeds max_wal_senders",
        "The server has no WAL sender left.",
        "Raise max_wal_senders and restart the server, or stop readers that are not needed (pg_stat_replication).",
    ),
    _known(
        r"permission denied to (?:start WAL sender|use replication slots|create replication slot)"
        r"|must be superuser or replication role",
        "The connector's role may not replicate.",
        "Run `alter role … replication`, or on RDS `grant rds_replication to …`; `cdc-outbox init --grants` has "
        "the whole role.",
    ),
    _known(
        r"too many clients already|remaining connection slots are reserved|too many connections for (?:role"
        r"|database)",
        "The database takes no more connections.",
        "Close connections that are not needed, or raise max_connections or the role's limit.",
    ),
    _known(
        r"wal_level property must be 'logical'|logical decoding requires \"?wal_level|Change \"wal_level\"",
        "The server writes too little into its WAL (wal_level).",
        "Set wal_level to logical and restart the server.",
    ),
    _known(
        r'publication "(?P<name>[^"]*)" does not exist|Publication autocreation is disabled',
        "The publication that the connector reads does not exist, or did not when what it reads was written.",
        "Run `cdc-outbox init` with the spec, and `cdc-outbox deploy-connector` again; if the slot is older than the "
        "publication, `cdc-outbox preflight` says what to do.",
    ),
    _known(
        r"permission denied for (?:table|relation|schema) (?P<name>\S+)",
        "The connector's role may not read {name}.",
        "Run what `cdc-outbox init --grants` prints.",
    ),
    _known(
        r'relation "(?P<name>[^"]*)" does not exist|No table filters found for filtered publication',
        "The outbox table is not there, or not under the name that the spec gives it.",
        "Run `cdc-outbox init` with the spec, or correct outbox.schema and outbox.table.",
    ),
    _known(
        r"The server does not support SSL",
        "The connector wants TLS, and the database offers none.",
        "Turn it on at the server, or correct database.sslmode.",
    ),
    _known(
        r"SSL error|unable to find valid certification path|PKIX path building failed",
        "The worker does not trust the certificate of the database or of a broker.",
        "Give the worker the authority that signed it: database.sslrootcert, or ssl.truststore.location.",
    ),
    _known(
        r"Could not (?:find|load) (?:value for )?.*config provider|ConfigProvider|Failed to resolve.*\$\{"
        r"|not resolve(?:d)? variable|(?:value is invalid: |UnknownHostException:? ?)\$\{",
        "A reference in the configuration leads nowhere: the worker has no such config provider, or not what it "
        "looks for.",
        "Enable the provider in the worker's configuration (config.providers), and set the variable or the file there.",
    ),
    _known(
        r"does not have exactly-once source support enabled",
        "The worker runs without exactly-once support.",
        "Set exactly.once.source.support to preparing and then to enabled on every worker, or leave out "
        "exactly.once.support.",
    ),
    _known(
        r"UnknownHostException:? ?(?P<host>[\w.-]*)",
        "The worker finds no host of the name {host}.",
        "The name is looked up where the worker runs: correct database.host, or the variable that it refers to.",
    ),
    _known(
        r"Connection to (?P<place>\S+) refused|The connection attempt failed|Connect(?:ion)?(?: validation)? timed out"
        r"|NoRouteToHost",
        "The worker cannot reach the database.",
        "Check that the server runs, and host and port as the worker sees them, firewalls and listen_addresses "
        "included.",
    ),
    _known(
        r"the database system is (?:starting up|shutting down|in recovery mode)"
        r"|terminating connection due to administrator command",
        "The database was restarting.",
        "Run the command again once it is up.",
    ),
    _known(
        r"Failed to find any class that implements Connector and which name matches (?P<name>[\w.]+)",
        "The worker does not have the connector's plugin.",
        "Install Debezium's plugin on every worker, in a folder of plugin.path, and restart them.",
    ),
    _known(
        r"ClassNotFoundException: (?P<name>[\w.$]+)|Class (?P<other>[\w.$]+) could not be found",
        "The worker does not have the class {name}, which the configuration names.",
        "Correct the name, or install the plugin on every worker, in a folder of plugin.path, and restart them.",
    ),
    _known(
        r"Field 'ts' is not of type INT64|Unsupported type .*timestamp",
        "The event's time is in a column of a type that the EventRouter cannot read, such as timestamptz.",
        "Make it `timestamp without time zone`: `cdc-outbox preflight` says how.",
    ),
    _known(
        r"Unable to find payload field|payload field .* (?:not|missing)|Unable to find (?P<name>\S+) field",
        "The EventRouter misses a column that its configuration names.",
        "Compare the table with the spec: `cdc-outbox preflight` names the column.",
    ),
    _known(
        r"ConfigException: (?P<said>[^\n]{1,200})",
        "An option has a value that is not taken: {said}",
        "Correct it in the spec's overrides; `cdc-outbox lint` finds most of these.",
    ),
    _known(
        r"RecordTooLargeException|max\.request\.size|larger than the maximum request size",
        "An event is larger than Kafka takes.",
        "Raise max.message.bytes of the topic and producer.override.max.request.size in overrides, or write "
        "smaller events.",
    ),
    _known(
        r"TopicAuthorizationException|ClusterAuthorizationException|GroupAuthorizationException"
        r"|TransactionalIdAuthorization",
        "Kafka does not let the worker write to a topic.",
        "Give the worker's user the ACLs for the pipeline's topics; or it may override no credentials.",
    ),
    _known(
        r"SaslAuthenticationException|SslAuthenticationException",
        "Kafka refuses the worker's login.",
        "Correct the credentials in the worker's configuration, or in the connector's producer.override.",
    ),
    _known(
        r"UnknownTopicOrPartitionException|not present in metadata|InvalidReplicationFactorException"
        r"|Unable to create topic",
        "The topic does not exist and could not be made.",
        "Make it beforehand, or correct topics.partitions and topics.replication_factor in the spec.",
    ),
    _known(
        r"trying to forward REST request: .*[Tt]imeout",
        "The worker that leads the cluster did not answer the one that was asked.",
        f"{_OWN_TOPICS}; then into that worker's log.",
    ),
    _known(
        r"trying to forward REST request",
        "The worker that was asked cannot reach the one that leads the cluster.",
        "After the death of a worker wait until another leads; else check that workers reach each other at their "
        "rest.advertised.host.name and port.",
    ),
    _known(
        r"config topic|(?:task|connector|root) configurations? to Kafka|target state to Kafka|read to end of log"
        r"|Request timed out\. The worker|unable to handle this request",
        "Connect cannot write or read its own topics in Kafka.",
        f"{_OWN_TOPICS}; then into the worker's log.",
    ),
    _known(
        r"Failed to update metadata after|Timeout expired (?:while|before)|TimeoutException|Disconnected"
        r"|BrokerNotAvailable",
        "The worker cannot reach Kafka.",
        "Check that the brokers run and that bootstrap.servers and advertised.listeners lead to them from the worker.",
    ),
    _known(
        r"OutOfMemoryError",
        "The worker ran out of memory.",
        "Give it more (KAFKA_HEAP_OPTS), or lower max.queue.size in overrides; then restart it.",
    ),
)


def diagnosis_of(trace: str) -> Diagnosis | None:
    """Return why something failed, ``None`` if it is nothing that is known here."""
    for known in KNOWN_FAILURES:
        found = known.pattern.search(trace)
        if found is not None:
            names = {name: value for name, value in found.groupdict().items() if value}
            names.setdefault("name", names.get("other", "that it names"))
            return Diagnosis(_filled(known.sentence, names), _filled(known.remedy, names))
    return None


def _filled(text: str, names: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "…"), text)
