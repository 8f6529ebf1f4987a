"""The known behavior of the options that decide how Connect writes messages: producer, topics, error handling."""

from cdc_outbox.debezium.options.behavior import OptionBehavior, Promise, connector, dangerous, unset
from cdc_outbox.debezium.options.router_options import OTHER_PARTITIONS
from cdc_outbox.finding import Severity

COMPACTION = "compaction keeps only the newest event of each aggregate"


def _only_deletes(value: str) -> str:
    return "" if value == "delete" else COMPACTION


KAFKA_OPTIONS = (
    OptionBehavior(
        "errors.tolerance",
        promise=Promise(
            "records that cannot be converted would be skipped without an error",
            "CC201",
            kept_by=frozenset({"none", ""}),
        ),
    ),
    OptionBehavior(
        "producer.override.acks",
        promise=Promise(
            "an event could be lost with the only broker that holds it", "CC203", kept_by=frozenset({"all", "-1", ""})
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
        "producer.override.transactional.id", promise=Promise("Connect itself configures its producer", "CC207")
    ),
    OptionBehavior(
        "producer.override.partitioner.",
        promise=Promise("events of one aggregate would go to different partitions"),
        changed=dangerous(OTHER_PARTITIONS),
    ),
    OptionBehavior("topic.creation.<group>.cleanup.policy", override=_only_deletes),
    OptionBehavior(
        "topic.creation.default.",
        adopted=connector(
            "is set for new topics; existing topics do not change.",
            "Correct topics in the spec if new topics need other settings.",
            when=unset,
        ),
    ),
    OptionBehavior(
        "topic.creation.",
        changed=connector("New topics get other settings; existing topics do not change."),
    ),
    OptionBehavior(
        "topic.heartbeat.", "transaction.", changed=connector("Only the topics of heartbeats and transactions change.")
    ),
)
