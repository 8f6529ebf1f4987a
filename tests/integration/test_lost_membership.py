"""A consumer whose group does not have it as a member, as the brokers say: it makes a new client, and then ends."""

import pytest

from cdc_outbox.consumer import group
from cdc_outbox.consumer.start_offsets import KafkaPartitions
from cdc_outbox.errors import BrokerUnavailableError
from tests.support.events import make_event
from tests.support.rig import eventually
from tests.support.service import Service
from tests.support.threads import Threads


def test_a_consumer_that_its_group_has_lost_makes_a_new_client_once_and_then_ends(
    fed_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, is_lost, asked, members = (
        set[KafkaPartitions](),
        list[bool](),
        list[KafkaPartitions](),
        KafkaPartitions.members,
    )

    def answer(partitions: KafkaPartitions) -> dict[str, int]:
        asked.append(partitions)
        return {} if is_lost or partitions in lost else members(partitions)

    monkeypatch.setattr(KafkaPartitions, "members", answer)
    for name in ("_LOOK_SECONDS", "_SELDOM_SECONDS"):
        monkeypatch.setattr(group, name, 0.1)
    for name in ("_RENEW_SECONDS", "_STUCK_SECONDS"):
        monkeypatch.setattr(group, name, 0.5)
    consumer = fed_service.consumer()
    with Threads() as threads:
        running = threads.submit(consumer.run)
        try:
            fed_service.send(make_event(1))
            fed_service.wait_for_effects(("1", 1))
            eventually(lambda: asked, "the first question")
            lost.add(asked[0])
            eventually(lambda: asked[-1] is not asked[0] or running.done(), "a new client")
            fed_service.send(make_event(2))
            fed_service.wait_for_effects(("1", 1), ("1", 2))
            eventually(lambda: consumer.progress().absent_since is None, "the new client to be a member")
            is_lost.append(True)
            eventually(running.done, "the end")
        finally:
            consumer.stop()
        with pytest.raises(BrokerUnavailableError, match="has not been a member of its group") as caught:
            running.result()
    assert caught.value.retryable
