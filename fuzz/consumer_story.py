"""What may happen to the consumers of one group, as a state machine for Hypothesis."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.ordering import Aggregate, aggregate_of, time_of
from cdc_outbox.consumer.parked_events import Reason, State
from cdc_outbox.errors import DatabaseUnavailableError, TransactionConflictError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message
from cdc_outbox.testing.memory_inbox import Remembered
from fuzz.consumer_operator import Operator
from fuzz.consumer_oracle import Oracle
from fuzz.consumer_world import (
    CONTRACT,
    GAPLESS,
    INCREASING,
    KINDS,
    LATEST,
    MENDED,
    NONE,
    PLACES,
    WATERMARK,
    Crash,
    Fault,
    Running,
    World,
    told_by,
)

DATABASE_STEPS = (
    "begin", "claim", "release", "find_purge", "find_watermarks", "lock_watermarks", "advance", "find_parked", "add",
    "remove", "fail", "rest", "wake", "find_due", "issue", "find_stale", "store_offsets", "start", "handler", "commit",
    "committed",
)  # fmt: skip
STEPS = (*DATABASE_STEPS, "poll", "consume", "offsets")
"""Where something may come between; in the order of a transaction's steps, more or less."""
_ENDS = ("crash", "conflict", "cut")
ACTIONS = (*_ENDS, "other", "keep", "evict", "return", "again", "operator")
_TURNS = 400
_LONG_SECONDS = 1000.0
"""Longer than any event waits for its next try."""


@dataclass
class Plan:
    """What comes between two steps of a turn.

    Args:
        countdown: How often the step is passed before that.
    """

    step: str
    countdown: int
    action: str


plans = st.none() | st.builds(Plan, st.sampled_from(STEPS), st.integers(0, 2), st.sampled_from(ACTIONS))
kinds, numbers = st.sampled_from(KINDS), st.integers(0, 1)
consumers = st.integers(0, 2)
places = st.sampled_from(PLACES)
faults = st.sampled_from([None, None, None, Fault(1), Fault(6), Fault(7), Fault(30), Fault(1, is_hopeless=True)])


class Story(RuleBasedStateMachine):
    """One story: what is written, what happens to whom, and what must be true after each of it."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.world.step = self._step
        self.oracle = Oracle(self.world)
        self.operator = Operator(self.world, self.oracle)
        self._plan: Plan | None = None
        self._planned: Running | None = None
        self._heads: dict[Aggregate, int] = {}
        self._homes: dict[tuple[str, str], TopicPartition] = {}
        self._sources = dict.fromkeys(KINDS, 1)
        self._withheld: list[RecordedEvent] = []
        self._told = ExitStack()
        self._told.enter_context(told_by(self.world))

    def teardown(self) -> None:
        try:
            if self.world.consumers:
                self._end()
        finally:
            self._told.close()

    @initialize(events=st.sampled_from([1, 2, 3, 50]), room=st.sampled_from([2, 10_000, 10_000]))
    def begin(self, events: int, room: int) -> None:
        for _ in range(3):
            self.world.start(batch_events=events, max_parked_events=room)
        for number, place in enumerate(PLACES):
            self.world.group.give(place, self.world.consumers[number % 2].client)

    # What is written

    @rule(kind=kinds, number=numbers, fault=faults, is_heard=st.sampled_from([True, True, True, False]))
    def write(self, kind: str, number: int, fault: Fault | None, is_heard: bool) -> None:  # noqa: FBT001
        event = self._written(kind, str(number), is_heard=is_heard)
        if fault is not None and event.id:
            self.world.faults[event.id] = replace(fault)
            if fault.is_hopeless:
                self.oracle.hopeless.add(event.id)
        self._send(event)

    @rule(kind=kinds, number=numbers, events=st.integers(2, 5))
    def write_more(self, kind: str, number: int, events: int) -> None:
        for _ in range(events):
            self._send(self._written(kind, str(number)))

    @rule(kind=kinds, number=numbers)
    def withhold(self, kind: str, number: int) -> None:
        event = self._written(kind, str(number))
        self.oracle.disordered.add(aggregate_of(event))
        self._withheld.append(event)

    @precondition(lambda self: self._withheld)
    @rule(which=st.integers(0, 9))
    def send_withheld(self, which: int) -> None:
        self._send(self._withheld.pop(which % len(self._withheld)))

    @precondition(lambda self: any(self.world.group.logs.values()))
    @rule(which=st.integers(0, 99), events=st.integers(1, 4))
    def repeat(self, which: int, events: int) -> None:
        """Write messages again, as a relay does that lost what it had confirmed."""
        logs = [log for log in self.world.group.logs.values() if log]
        log = logs[which % len(logs)]
        first = which % len(log)
        for message in log[first : first + events]:
            self.world.append(TopicPartition(message.topic, message.partition or 0), message)

    @rule(kind=st.sampled_from([GAPLESS, INCREASING, LATEST]), number=numbers)
    def contradict(self, kind: str, number: int) -> None:
        """Write another event with the last one's sequence."""
        aggregate = self._aggregate(kind, str(number))
        self.oracle.disordered.add(aggregate)
        last = [event for event in self.oracle.written.values() if aggregate_of(event) == aggregate][-1:]
        for event in last:
            self._send(self._made(aggregate, event.sequence or 0, event.type))

    @rule(place=places)
    def write_rubbish(self, place: TopicPartition) -> None:
        self.world.append(place, Message(topic=place.topic, key=b"1", value=b"{}"))

    @rule(kind=st.sampled_from([INCREASING, NONE]), number=numbers)
    def garble(self, kind: str, number: int) -> None:
        """Write an event that nobody can read before the end."""
        self._send(self._written(kind, str(number)), value=b"\xff")

    @rule(kind=st.sampled_from([GAPLESS, LATEST, WATERMARK]), number=numbers, place=places)
    def move_home(self, kind: str, number: int, place: TopicPartition) -> None:
        """Write an aggregate's later events elsewhere, as after an increase of the partitions.

        Where only the topic's order tells who is next, nothing is promised to an aggregate in two partitions.
        """
        self.oracle.disordered.add(self._aggregate(kind, str(number)))
        self._homes[kind, str(number)] = place

    @rule(kind=kinds)
    def begin_incarnation(self, kind: str) -> None:
        self._sources[kind] += 1

    @rule(kinds=st.lists(kinds, min_size=1, max_size=5), times=st.integers(3, 40))
    def take_away(self, kinds: list[str], times: int) -> None:
        """Have a system be away that handlers of several types need."""
        self.world.away.update(dict.fromkeys([f"{kind}-done" for kind in kinds], times))

    # What happens to consumers

    @rule(number=consumers, plan=plans, turns=st.integers(1, 3))
    def turn(self, number: int, plan: Plan | None, turns: int) -> None:
        running = self.world.consumers[number]
        self._plan, self._planned = plan and replace(plan), running
        for _ in range(turns):
            running = running.turn()
            self.world.sleep(0.6)
        self._plan = None

    @rule()
    def turn_all(self) -> None:
        for running in list(self.world.consumers):
            running.turn()
        self.world.sleep(1.1)

    @rule(seed=st.integers(0, 2**16), rounds=st.integers(3, 15))
    def storm(self, seed: int, rounds: int) -> None:
        """Let everybody work a while, with something in between in nearly every round."""
        random = Random(seed)
        for _ in range(rounds):
            running = random.choice(self.world.consumers)
            plan = Plan(random.choice(STEPS), random.randint(0, 2), random.choice(ACTIONS))
            self._plan, self._planned = (plan if random.random() < 0.8 else None), running
            running.turn().turn()
            self._plan = None
            for place in PLACES:
                if random.random() < 0.1:
                    self.world.group.give(place, random.choice(self.world.consumers).client)
            self.world.sleep(random.choice([0.1, 0.6, 2.0, 6.0]))
            self.oracle.check()

    @rule(place=places, number=consumers)
    def rebalance(self, place: TopicPartition, number: int) -> None:
        self.world.group.give(place, self.world.consumers[number].client)

    @rule(number=consumers)
    def evict(self, number: int) -> None:
        self._evict(self.world.consumers[number])

    @rule(number=consumers)
    def crash(self, number: int) -> None:
        self.world.restart(self.world.consumers[number])

    @rule(number=consumers)
    def refuse_offsets(self, number: int) -> None:
        self.world.consumers[number].client.refusals = 1

    @rule(seconds=st.sampled_from([1.0, 6.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.world.sleep(seconds)

    # What operators do

    @rule(seconds=st.sampled_from([0.0, 2.0, 20.0]))
    def purge(self, seconds: float) -> None:
        horizon = self.world.moment - timedelta(seconds=seconds)

        def change(now: Remembered) -> None:
            kept = {key for key in now.claims if (time_of(key) or horizon) >= horizon}
            if kept != now.claims:  # a purge is noted only for a consumer that forgets something in it
                now.claims, now.purged_before = kept, max(now.purged_before or horizon, horizon)

        self.world.server.change(change, ())

    @rule(which=st.integers(0, 9), is_forced=st.booleans())
    def retry(self, which: int, is_forced: bool) -> None:  # noqa: FBT001
        # One that may have been forgotten is applied by whoever knows better than the consumer.
        dead = [
            place
            for place, row in self.operator.rows()
            if row.parked.state is State.DEAD and row.parked.reason is not Reason.EXPIRED
        ]
        if dead:
            self.operator.retry(dead[which % len(dead)], is_forced=is_forced)

    @rule(which=st.integers(0, 9))
    def skip(self, which: int) -> None:
        dead = [place for place, row in self.operator.rows() if row.parked.state is State.DEAD]
        if dead:
            self.operator.skip(dead[which % len(dead)])

    @invariant()
    def laws_hold(self) -> None:
        self.oracle.check()

    # How

    def _aggregate(self, kind: str, number: str) -> Aggregate:
        return Aggregate(f"{kind}.{self._sources[kind]}", kind, number)

    def _written(self, kind: str, number: str, *, is_heard: bool = True) -> RecordedEvent:
        aggregate = self._aggregate(kind, number)
        self._heads[aggregate] = head = self._heads.get(aggregate, 0) + (2 if kind == INCREASING else 1)
        return self._made(aggregate, head, f"{kind}-{'done' if is_heard else 'unheard'}")

    def _made(self, aggregate: Aggregate, sequence: int, event_type: str) -> RecordedEvent:
        event = RecordedEvent(
            id=self.world.new_id(),
            aggregate_type=aggregate.aggregate_type,
            aggregate_id=aggregate.aggregate_id,
            type=event_type,
            payload={},
            sequence=None if aggregate.aggregate_type == NONE else sequence,
            source=aggregate.source,
            created_at=self.world.moment,
        )
        self.oracle.written[event.id] = event
        return event

    def _send(self, event: RecordedEvent, value: bytes = b"{}") -> None:
        home = self._homes.get((event.aggregate_type, event.aggregate_id), PLACES[int(event.aggregate_id)])
        self.world.append(home, replace(CONTRACT.message_of(event), value=value))

    def _step(self, running: Running, step: str) -> None:
        plan = self._plan
        if plan is None or running is not self._planned or step != plan.step:
            return
        if plan.countdown:
            plan.countdown -= 1
            return
        self._plan = None
        if plan.action in _ENDS:
            self._break(running, plan.action, step)
        else:
            self._disturb(running, plan.action)

    def _break(self, running: Running, action: str, step: str) -> None:
        """End the process or its transaction, where the step is of one."""
        if action == "crash":
            raise Crash
        if action == "conflict" and step in DATABASE_STEPS and step != "committed":
            raise TransactionConflictError("deadlock")
        if action == "cut" and step in DATABASE_STEPS:
            running.connection.close()
            raise DatabaseUnavailableError("cut")

    def _disturb(self, running: Running, action: str) -> None:
        """Do what others do meanwhile."""
        group = self.world.group
        if action in {"evict", "return"}:
            self._evict(running)
        if action in {"evict", "return", "other"}:
            self._let_others(running)
        if action in {"return", "again"}:
            for place in [place for place in PLACES if action == "return" or group.holders[place] is running.client]:
                group.give(place, running.client)
        if action == "return":
            self._let_others(running)
        if action in {"return", "again", "keep"}:
            running.keep()
        if action == "operator":
            for number, row in self.operator.rows():
                if row.parked.state is State.DEAD or row.parked.reason is Reason.FAILED:
                    self.operator.skip(number)

    def _let_others(self, running: Running) -> None:
        for other in list(self.world.consumers):
            if other is not running:
                other.turn().turn()

    def _evict(self, running: Running) -> None:
        heir = self.world.consumers[(self.world.consumers.index(running) + 1) % len(self.world.consumers)]
        self.world.group.evict(running.client, heir.client)

    def _end(self) -> None:
        """Let all faults end, and wait until nothing moves; then have what failed tried again, and wait once more.

        What could not be read can be by then.
        """
        self.world.faults.clear()
        self.world.away.clear()
        for event in self._withheld:
            self._send(event)
        for running in self.world.consumers:
            running.client.refusals = 0
            running.stats._limits = replace(running.limits, max_parked_events=10_000, max_parked_bytes=1_000_000)  # noqa: SLF001
        self._settle()
        self.oracle.check_end()
        for running in self.world.consumers:
            running.loop._contract = MENDED  # noqa: SLF001
        for place, row in self.operator.rows():
            if row.parked.state is State.DEAD and row.parked.blocks:
                self.operator.retry(place, is_forced=False)
        self._settle()
        self.oracle.check_end()
        self.oracle.check_all_done()

    def _settle(self) -> None:
        calm = 0
        for _ in range(_TURNS):
            before = self._state()
            for running in list(self.world.consumers):
                running.turn()
                self.oracle.check()
            self.world.sleep(_LONG_SECONDS if calm else 1.1)
            calm = calm + 1 if before == self._state() else 0
            if calm > 4:
                return
        raise AssertionError("the consumers do not come to rest")

    def _state(self) -> object:
        committed = self.world.server.committed
        rows = [(place, row.parked.state, row.parked.attempts) for place, row in self.operator.rows()]
        return (
            len(committed.effects),
            dict(committed.watermarks),
            rows,
            dict(self.world.group.committed),
            {place: id(holder) for place, holder in self.world.group.holders.items()},
        )
