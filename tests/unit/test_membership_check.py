"""Whether a consumer is a member of its group: when another client is made, when it ends, and who is well."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError

from cdc_outbox.consumer import Limits
from cdc_outbox.consumer.fencing import Ownership, TopicPartition
from cdc_outbox.consumer.group import BackgroundPoller, Membership, MembershipCheck, pass_over
from cdc_outbox.consumer.offsets import Offsets
from cdc_outbox.consumer.start_offsets import PartitionOffsets
from cdc_outbox.consumer.stats import ConsumerStats
from cdc_outbox.consumer.waits import Blocking, Yielding
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import BrokerError, BrokerUnavailableError
from cdc_outbox.monitoring.health import Health, HealthStatus, health_of
from cdc_outbox.telemetry import NoMetrics
from fuzz.consumer_group import Client, Group
from fuzz.consumer_world import ModelPoller
from tests.support.loop_rig import PLACE, OnePartitionEach, Second, append
from tests.support.loop_rig import rig as make_loop

HOME = TopicPartition("outbox.event.order", 0)
ME, OTHERS = "this one", {"a": 1, "b": 1, "c": 1}
OK = Health(status=HealthStatus.OK, reasons=())


class Rig:
    """A consumer with a clock and brokers of the test.

    Args:
        members: What the brokers answer, or the error.
    """

    def __init__(self, *, asynchronous: bool = False) -> None:
        self.now, self.asked = 1_000.0, 0
        self.members: dict[str, int] | BrokerError = {ME: 1}
        self._asynchronous = asynchronous
        self.stats = ConsumerStats(name="shipping", limits=Limits(), metrics=NoMetrics(), clock=lambda: self.now)
        self.ownership = Ownership()
        self.start()

    def start(self) -> None:
        """Run another client."""
        client = Client(Group([HOME]), lambda _step: None, lambda *_: None)
        poller: BackgroundPoller = ModelPoller(cast("Any", client))
        partitions: Any = type("Partitions", (), {"members": lambda _: self._answer()})()
        member = Membership(
            client=cast("Any", client),
            poller=poller,
            offsets=Offsets(),
            ownership=self.ownership,
            partitions=partitions,
        )
        waits = Yielding(asyncio.Event()) if self._asynchronous else Blocking(threading.Event())
        self.stats.started()
        self._membership_check = MembershipCheck(member, self.stats, waits, lambda: self.now)

    def _answer(self) -> dict[str, int]:
        self.asked += 1
        if isinstance(self.members, BrokerError):
            raise self.members
        return self.members

    def look(self, seconds: int) -> int | None:
        """Look each second, and return after how many seconds another client is wanted; ``None`` if none is."""
        for second in range(1, seconds + 1):
            self.now += 1
            self.stats.polled_at = self.now
            looked = self._membership_check.has_ended()
            if asyncio.run(cast("Any", looked)) if self._asynchronous else finish(looked):
                return second
        return None

    @property
    def health(self) -> Health:
        """What a probe would be told."""
        return health_of(self.stats.progress(), now=self.now)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_who_is_no_member_makes_a_new_client_once_and_ends_when_that_is_none_for_a_minute(
    *, asynchronous: bool
) -> None:
    rig = Rig(asynchronous=asynchronous)
    rig.members = OTHERS
    assert rig.look(100) == 25
    rig.start()
    assert rig.health == OK
    assert rig.look(60) is None
    assert rig.health.reasons == ("it is not a member of its group",)
    with pytest.raises(BrokerUnavailableError, match="has not been a member of its group for 60 s") as caught:
        rig.look(10)
    assert caught.value.retryable
    assert rig.health.status is HealthStatus.STUCK


def test_a_client_that_was_a_member_again_has_another_chance(rig: Rig) -> None:
    for _ in range(3):
        rig.members = {}
        assert rig.look(100) == 25
        rig.start()
        rig.members = {ME: 1}
        assert rig.look(10) is None


def test_a_member_without_partitions_is_well_and_says_why(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rig.members = OTHERS | {ME: 0}
    assert rig.look(600) is None
    rig.stats.lagged({}, assigned=())
    assert rig.health == OK
    assert rig.stats.progress().unassigned_reason == "the group has 4 members for 3 partitions"
    assert [record.message for record in caplog.records] == ["has no partition until another member leaves"]
    rig.members = {"a": 1, "b": 1, ME: 1}
    assert rig.look(10) is None
    assert rig.stats.progress().unassigned_reason == ""


def test_brokers_that_do_not_answer_are_an_outage_and_no_absence(rig: Rig) -> None:
    answers: list[dict[str, int] | BrokerError] = [{}, BrokerUnavailableError("no answer")] * 2
    for answer in answers:
        rig.members = answer
        assert rig.look(20) is None
    assert rig.health == Health(status=HealthStatus.DEGRADED, reasons=("waiting for the brokers",))
    rig.members = {ME: 1}
    assert rig.look(20) is None
    assert rig.health == OK


def test_who_may_not_ask_is_not_suspected(rig: Rig) -> None:
    rig.members = BrokerError("not authorized")
    assert rig.look(600) is None
    assert rig.health == OK


def test_who_has_partitions_asks_seldom(rig: Rig) -> None:
    rig.ownership.assign([HOME])
    rig.ownership.held[HOME] = 1
    assert rig.look(100) is None
    assert rig.asked == 5


def test_who_could_not_read_is_not_well_until_it_reads_again(rig: Rig) -> None:
    rig.stats.retried(BrokerUnavailableError("no answer"))
    rig.stats.lagged({}, assigned=[HOME])
    assert rig.health == Health(status=HealthStatus.DEGRADED, reasons=("waiting for the brokers",))
    rig.stats.connected(False)
    assert rig.health.reasons == ("waiting for the brokers",)
    rig.stats.connected(True)
    rig.stats.reads()
    assert rig.health == OK


def test_an_error_that_is_polled_counts_as_a_failed_attempt_to_read(rig: Rig) -> None:
    record: Any = Mock(**{"error.return_value": KafkaError(KafkaError._TRANSPORT), "topic.return_value": "t"})
    pass_over(record, rig.stats)
    assert rig.health.status is HealthStatus.DEGRADED


class _FailingOnce(OnePartitionEach):
    """Brokers that do not answer at first."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look, self.asked = look, 0

    def find(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, PartitionOffsets]:
        self.asked += 1
        if self.asked == 1:
            raise BrokerUnavailableError("no answer")
        if self.asked == 2:
            self._look()
        return super().find(places)


def test_a_consumer_whose_brokers_do_not_tell_where_to_begin_is_not_well_meanwhile() -> None:
    seen, second, group = list[str](), Second(back_at=0), Group([PLACE])
    append(group, PLACE, "1", 1)
    partitions = _FailingOnce(lambda: seen.append(running._stats.progress().outage))
    running, _, _ = make_loop(second, group, ModelPoller, partitions=partitions)
    turns = iter(range(20))
    finish(running.run(lambda: next(turns, None) is None))
    assert (seen, running._stats.progress().outage, len(second.applied)) == (["the brokers"], "", 1)
