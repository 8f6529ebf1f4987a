"""The topics of a pipeline, as they shall be and as they are."""

from cdc_outbox.connect.topics import topics_of
from cdc_outbox.operate.topics import differences
from cdc_outbox.spec import parse_spec
from cdc_outbox.topic import HEARTBEATS, Topic
from tests.support.specs import MINIMAL


def topics(text: str) -> dict[str, Topic]:
    return {topic.name: topic for topic in topics_of(parse_spec(text))}


def test_a_topic_is_made_as_connect_would_make_it() -> None:
    text = f"{MINIMAL}topics: {{partitions: 6, retention: 2d}}\n"
    text += "overrides: {topic.creation.default.max.message.bytes: 5000000}\n"
    topic = topics(text)["outbox.event.customer"]
    assert (topic.partitions, topic.replication_factor) == (6, -1)
    assert topic.config == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "172800000",
        "max.message.bytes": "5000000",
    }


def test_heartbeats_may_have_the_partitions_that_connect_gave_them() -> None:
    wanted = topics(MINIMAL)[f"{HEARTBEATS}.orders"]
    assert list(differences(wanted, Topic(name=wanted.name, partitions=3, config=wanted.config))) == []
    [compacted] = differences(wanted, Topic(name=wanted.name, partitions=3, config={"cleanup.policy": "compact"}))
    assert "cleanup.policy=compact" in str(compacted)


def test_a_history_is_kept_for_ever_in_one_partition() -> None:
    text = MINIMAL.replace("postgresql", "mariadb")
    history = topics(text)[parse_spec(text).history.topic]
    assert (history.partitions, history.config["retention.ms"]) == (1, "-1")
    by_debezium = Topic(name=history.name, partitions=1, config={**history.config, "retention.ms": str(2**63 - 1)})
    assert list(differences(history, by_debezium)) == []
    compacted = Topic(name=history.name, partitions=1, config={**history.config, "cleanup.policy": "compact"})
    [difference] = differences(history, compacted)
    assert "cleanup.policy=compact" in difference.text
