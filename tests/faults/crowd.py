"""Three consumers that join and leave under load: orderly, killed, in each of the ways in which a group shares."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from threading import Event
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.faults.cell import SETTINGS
from tests.faults.ledger import POISONED, Ground, Ledger
from tests.faults.member import Member, end_all
from tests.faults.program import Orders
from tests.faults.report import Result
from tests.support.patience import patience
from tests.support.rig import eventually
from tests.support.threads import Threads

_MEMBERS, _PARTITIONS = 3, 6
_AGGREGATES = [f"a{number}" for number in range(30)]
_SLOW_SECONDS = 1.2
"""Longer than a consumer polls only by itself: then somebody else polls for it, and partitions go meanwhile."""
_SESSION = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "300"}
"""In the newer protocol the group says it, and not its members."""


class Sharing(StrEnum):
    """How a group shares its partitions."""

    EAGER = "eager"
    COOPERATIVE = "cooperative-sticky"
    CONSUMER = "consumer-protocol"
    STATIC = "static-members"

    def settings(self, member: int) -> Mapping[str, Any]:
        """Return librdkafka's settings of one member."""
        match self:
            case Sharing.EAGER:
                return {**SETTINGS, "partition.assignment.strategy": "range"}
            case Sharing.COOPERATIVE:
                return SETTINGS
            case Sharing.CONSUMER:
                return {"group.protocol": "consumer", "topic.metadata.refresh.interval.ms": 300}
            case Sharing.STATIC:
                return {**SETTINGS, "group.instance.id": f"member-{member}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """A group whose members come and go.

    Args:
        every_seconds: How long after one went the next one goes.
    """

    sharing: Sharing
    seconds: float = 40.0
    every_seconds: float = 5.0
    events_per_second: float = 200.0
    seed: int = 0

    def run(self, ground: Ground) -> Result:
        """Have them come and go, and count."""
        name = f"{self.sharing}-{self.seed}"
        if self.sharing is Sharing.CONSUMER:
            _shorten_sessions(ground, name)
        with Ledger(ground, name, partitions=_PARTITIONS).open() as ledger, ExitStack() as opened:
            return _Gathering(self, ledger, opened).run()


class _Gathering:
    def __init__(self, crowd: Crowd, ledger: Ledger, opened: ExitStack) -> None:
        self._crowd, self._ledger, self._opened = crowd, ledger, opened
        self._random = Random(f"{crowd.sharing} {crowd.seed}")  # noqa: S311 - it is to repeat itself
        self._count = 0
        self._stopping = Event()

    def run(self) -> Result:
        ledger, violations = self._ledger, []
        members = [self._come(slot) for slot in range(_MEMBERS)]
        with Threads(1) as pool:
            writing = pool.submit(self._write)
            end = time.monotonic() + self._crowd.seconds
            while time.monotonic() < end:
                self._stopping.wait(self._crowd.every_seconds)
                slot = self._random.randrange(_MEMBERS)
                violations += self._go(members[slot])
                members[slot] = self._come(slot)
            self._stopping.set()
            writing.result()
        begun_at = time.monotonic()
        try:
            eventually(ledger.is_done, "every event's end")
        except AssertionError as error:
            violations += [str(error), *(f"{member.name}: {member.log()}" for member in members)]
        seconds = time.monotonic() - begun_at
        violations += end_all(members)
        violations += ledger.violations()
        return Result(events=len(ledger.good) + len(ledger.bad), seconds=seconds, violations=violations)

    def _come(self, slot: int) -> Member:
        self._count += 1
        orders = Orders(
            consumer=self._ledger.name,
            member=f"{slot}, the {self._count}. that came",
            topic=self._ledger.name,
            brokers=self._ledger.ground.stack.broker.bootstrap_servers,
            dsn=self._ledger.ground.dsn,
            batch_events=50,
            handler_seconds=10,
            settings=self._crowd.sharing.settings(slot),
            asynchronous=slot == 0,
        )
        member = Member(orders)
        self._opened.callback(member.close)
        member.run()
        return member

    def _go(self, member: Member) -> list[str]:
        if self._random.random() < 1 / 2:
            member.kill()
        else:
            member.stop()
        return member.end()

    def _write(self) -> None:
        """Write until told to stop: a poison event once, and now and then one whose handler takes long."""
        random, written = Random(self._crowd.seed), 0  # noqa: S311 - it is to repeat itself
        begun_at = time.monotonic()
        while not self._stopping.wait(0.05):
            wanted = (time.monotonic() - begun_at) * self._crowd.events_per_second
            while written < wanted:
                slow = random.random() < 1 / 1000
                self._ledger.produce([random.choice(_AGGREGATES)], seconds=_SLOW_SECONDS if slow else 0)
                written += 1
            self._ledger.flush()
            if POISONED not in self._ledger.events:
                self._ledger.produce([POISONED], poison=True)


def _shorten_sessions(ground: Ground, group: str) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in _SESSION.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": ground.stack.broker.bootstrap_servers})
    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result(timeout=patience())
