"""Connect's config topic is deleted while its workers run, and then they are killed and started."""

from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from cdc_outbox.testing import Stack
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.release import NO_CHANGE, Release
from tests.support.rig import eventually

_TOPIC = "connect-config"


@dataclass(frozen=True, slots=True)
class Loss:
    """What it did.

    Args:
        code: What the command ended with that deployed a change meanwhile.
        told: What it said.
        events: How many were written, all of which arrived.
    """

    code: int
    told: str
    events: int


def delete_topic(stack: Stack, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": stack.broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(patience())
    eventually(lambda: not stack.broker.ends(topic), "the topic to be gone")


def lose_config_topic(stack: Stack, folder: Path) -> Loss:
    """Delete the topic, deploy a change, begin anew with every worker, and deploy again."""
    release = Release.begin(Pipeline.make(stack), folder)
    delete_topic(stack, _TOPIC)
    # Connect itself takes most of a minute for each no.
    done = release.deploy("--connect-patience=1s", seconds=300)
    release.runs_as_before()
    for worker in stack.workers:
        worker.kill()
    release.write()
    for worker in stack.workers:
        worker.start()
    assert release.client.find_config(release.pipeline.name) is None
    again = release.deploy(change=NO_CHANGE)
    assert again.code == 0, again.told
    release.runs_as_before()
    return Loss(done.code, done.told, release.last)
