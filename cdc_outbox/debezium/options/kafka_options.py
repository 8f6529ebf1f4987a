"""What is known of the options that say how Connect writes messages: producer, topics, what it does about errors."""

from cdc_outbox.debezium.options.behavior import OptionBehavior, Promise, connector, dangerous, unset
from cdc_outbox.debezium.options.router_options import OTHER_PARTITIONS
from cdc_outbox.finding import Severity

COMPACTION = "compaction keeps one event an aggregate and drops the rest"


def _only_deletes(value: str) -> str:
    return "" if value == "delete" else COMPACTION


KAFKA_OPTIONS = (
    OptionBehavior(
        "errors.tolerance",
        promise=Promise(
            "what cannot be converted would be skipped without a word", "CC201", kept_by=frozenset({"none", ""})
        ),
    ),
    OptionBehavior(
        "producer.override.acks",
        promise=Promise(
            "an event could be lost with the broker that alone had it", "CC203", kept_by=frozenset({"all", "-1", ""})
        ),
    ),
    OptionBehavior(
        "producer.override.enable.idempotence", promise=Promise("a retry could write an event twice, or out of order")
    ),
    OptionBehavior(
        "producer.override.max.in.flight.requests.per.connection",
        promise=Promise("a retry could write events out of order"),
    ),
    OptionBehavior(
        "producer.override.retries",
        promise=Promise(
            "without retries Kafka gives up idempotence",
            "CC205",
            Severity.WARNING,
            kept_by=frozenset({"2147483647", ""}),
        ),
    ),
    OptionBehavior(
        "producer.override.key.serializer",
        promise=Promise("another key puts an aggregate into another partition, and its order is lost", "CC207"),
    ),
    OptionBehavior(
        "producer.override.value.serializer", promise=Promise("consumers could not read the events", "CC207")
    ),
    OptionBehavior(
        "producer.override.transactional.id", promise=Promise("the producer is Connect's to set up", "CC207")
    ),
    OptionBehavior(
        "producer.override.partitioner.",
        promise=Promise("an aggregate's events would not stay in one partition"),
        changed=dangerous(OTHER_PARTITIONS),
    ),
    OptionBehavior("topic.creation.<group>.cleanup.policy", override=_only_deletes),
    OptionBehavior(
        "topic.creation.default.",
        adopted=connector(
            "is set, for topics that do not exist yet; those that do stay as they are.",
            "Correct topics in the spec if new ones are to be made otherwise.",
            when=unset,
        ),
    ),
    OptionBehavior(
        "topic.creation.",
        changed=connector("Topics that do not exist yet are made otherwise; those that do stay as they are."),
    ),
    OptionBehavior(
        "topic.heartbeat.", "transaction.", changed=connector("Topics beside the events' change, not theirs.")
    ),
)
