"""Which parked events an instance of a consumer applies beside those of its own partitions."""

from collections.abc import Collection, Mapping

import pytest

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.parking import Adoption
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.event import SequenceMode

CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic="orders")


def adopted(
    held: Collection[TopicPartition], *, partitions: int, parked: Collection[TopicPartition]
) -> set[TopicPartition]:
    """Return what an instance adopts that is assigned some of the partitions that the brokers know."""

    async def find_topics() -> Mapping[str, Collection[int]]:
        return {"orders": range(partitions)}

    adoption = Adoption(CONTRACT, find_topics)
    finish(adoption.look(parked, held))
    return {*adoption.adopted}


@pytest.mark.parametrize("partitions", [1, 2])
def test_what_is_parked_of_a_topic_that_had_more_partitions_has_one_guardian(partitions: int) -> None:
    known = [TopicPartition("orders", number) for number in range(partitions)]
    former, parked = TopicPartition("orders", 3), [known[-1], TopicPartition("orders", 3)]
    assert adopted(known[:1], partitions=partitions, parked=parked) == {former}
    for others in (known[1:], [TopicPartition("orders", 1)], []):  # one of them may hold what was taken away meanwhile
        assert adopted(others, partitions=partitions, parked=parked) == set()


def test_nothing_is_adopted_while_each_partition_is_there() -> None:
    parked = [TopicPartition("orders", 3)]
    assert adopted([TopicPartition("orders", 0)], partitions=4, parked=parked) == set()
    assert adopted([], partitions=0, parked=parked) == set()
