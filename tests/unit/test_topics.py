"""The topics of a pipeline, as they are wanted and as they are."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cdc_outbox.cli.topics import create
from cdc_outbox.contract.topics import HEARTBEATS, Topic, differences, find_loss
from cdc_outbox.debezium.render import topics_of
from cdc_outbox.errors import BrokerError, ConfigError
from cdc_outbox.spec import parse_spec
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


@pytest.mark.parametrize("override", ["cleanup.policy: compact", "partitions: 7", "replication.factor: 1"])
def test_no_topic_is_made_by_an_override_that_no_connector_gets(override: str) -> None:
    with pytest.raises(ConfigError, match=f"topic.creation.default.{override.partition(':')[0]} cannot be overridden"):
        topics(f"{MINIMAL}overrides: {{topic.creation.default.{override}}}\n")


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


class Brokers:
    """Brokers that were asked, and make topics as they are told, unless their name is refused."""

    def __init__(self, *there: Topic, refused: str = "") -> None:
        self.there = {topic.name: topic for topic in there}
        self.refused = refused
        self.asked: list[str] = []

    def find(self, names: Iterable[str]) -> dict[str, Topic]:
        self.asked.append("find")
        return {name: self.there[name] for name in names if name in self.there}

    def create(self, wanted: Iterable[Topic]) -> dict[str, bool | BrokerError]:
        self.asked.append("create")
        answers: dict[str, bool | BrokerError] = {
            topic.name: BrokerError("not allowed") if topic.name == self.refused else True for topic in wanted
        }
        self.there |= {topic.name: topic for topic in wanted if answers[topic.name] is True}
        return answers


def run_create(brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[str, object]:
    spec = tmp_path / "spec.yaml"
    spec.write_text(MINIMAL)
    monkeypatch.setattr("cdc_outbox.cli.topics.Topics", lambda *_: brokers)
    done = CliRunner().invoke(create, [str(spec), "--bootstrap-servers=b:1", *options])
    return done.stdout, done.exception


def test_brokers_are_asked_once_for_all_topics_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers, wanted = Brokers(), topics(MINIMAL)
    assert len(wanted) > 1
    said, _ = run_create(brokers, tmp_path, monkeypatch)
    assert (brokers.asked, brokers.there) == (["find", "create", "find"], wanted)
    assert said.count(": created, ") == len(wanted)
    brokers.asked.clear()
    assert run_create(brokers, tmp_path, monkeypatch)[0] == ""
    assert brokers.asked == ["find"]
    brokers = Brokers()
    run_create(brokers, tmp_path, monkeypatch, "--dry-run")
    assert brokers.asked == ["find"]


def test_one_topic_that_is_refused_keeps_no_other_from_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = topics(MINIMAL)
    refused = next(iter(wanted))
    brokers = Brokers(refused=refused)
    said, error = run_create(brokers, tmp_path, monkeypatch)
    assert str(error) == "not allowed"
    assert (said.count(": created, "), refused in said) == (len(wanted) - 1, False)


SAFE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


@pytest.mark.parametrize(
    ("replicas", "config", "text"),
    [
        (3, {}, ""),
        (2, {}, ""),
        (1, {}, "has 1 replica: "),
        (3, {"min.insync.replicas": "1"}, "has 3 replicas and min.insync.replicas=1: "),
        (3, {"unclean.leader.election.enable": "true"}, "has unclean.leader.election.enable=true: "),
    ],
)
def test_acknowledged_messages_are_safe_on_two_of_several_replicas_alone(
    replicas: int, config: dict[str, str], text: str
) -> None:
    topic = Topic(name="orders", partitions=1, replication_factor=replicas, config=SAFE | config)
    loss = find_loss(topic, brokers=3)
    assert (loss is None) == (not text)
    assert loss is None or (loss.text.startswith(text) and loss.remedy.startswith(("Run kafka-", "Change the")))
    assert find_loss(topic, brokers=1) is None
