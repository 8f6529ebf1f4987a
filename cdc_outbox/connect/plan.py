"""What a deployment would change, decided from values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cdc_outbox.connect.client import ConnectorStatus
from cdc_outbox.connect.neighbours import Neighbour
from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.debezium.config import slot_of
from cdc_outbox.debezium.diff import OptionChange, changes_between, version_of
from cdc_outbox.debezium.render import owes_rows
from cdc_outbox.debezium.slot_plan import SlotPlan, SlotStep, is_read_by_other_tool, reads_another_log


@dataclass(frozen=True, slots=True)
class Found:
    """The connector as a deployment finds it."""

    config: Mapping[str, str]
    status: ConnectorStatus

    @property
    def is_republishing(self) -> bool:
        """Whether it publishes the rows of the table, and nothing behind them: a deployment did not get to its end."""
        return owes_rows(self.config)

    def may_read(self, slot: SlotFacts) -> bool:
        """Return whether the reader of a slot may be this connector.

        It is Debezium, and the connector's configuration names the slot, and it is neither stopped nor failed.
        """
        tasks = self.status.tasks
        runs = self.status.state != "STOPPED" and (not tasks or any(task.state != "FAILED" for task in tasks))
        return runs and slot_of(self.config) == slot.name and not is_read_by_other_tool(slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a deployment would change.

    Args:
        creates: The connector does not exist yet.
        slot: ``None`` while it cannot be known: offsets may be stored under the name of a connector that is gone,
            and Connect shows them only once a connector of that name exists.
        halted: It was stopped or paused.
        failed: It or a task of it had failed.
        up: It ran, and all its tasks did.
        changes_log: It read messages and will read rows, or the other way round.
        republishes: A deployment was cut off while it published rows again: its snapshot mode is that one's.
        neighbours: Other connectors that publish the same table.
    """

    creates: bool = False
    changes: tuple[OptionChange, ...] = ()
    slot: SlotPlan | None = None
    halted: bool = False
    failed: bool = False
    up: bool = False
    changes_log: bool = False
    republishes: bool = False
    neighbours: tuple[Neighbour, ...] = ()

    @property
    def dangers(self) -> tuple[OptionChange, ...]:
        """The changes that are made only if the operator allows them."""
        taken_back = {"snapshot.mode"} if self.republishes else set()
        return tuple(change for change in self.changes if change.is_dangerous and change.option not in taken_back)

    @property
    def needs_stop(self) -> bool:
        """Whether the connector must not run meanwhile: its old router would skip events meant for its new one."""
        return self.changes_log or (self.slot is not None and self.slot.needs_stop)

    @property
    def resumes(self) -> bool:
        """Whether it must be resumed: a new connector is created stopped."""
        return self.creates or self.halted or self.needs_stop

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        kept = self.slot is not None and self.slot.is_empty
        return kept and not (self.resumes or self.failed or self.changes)

    @property
    def is_settled(self) -> bool:
        """Whether the connector ran before and is unchanged, so that the deployment need not wait for it."""
        return self.is_empty and self.up

    def __str__(self) -> str:
        count = len(self.changes)
        options = f"{count} option{'s' * (count != 1)}"
        steps = [
            f"create the connector with {options}" if self.creates else f"change {options}" * bool(count),
            f"{self.slot.step} the slot" if self.slot and self.slot.step is not SlotStep.KEEP else "",
            "reset the offsets" if self.slot and self.slot.resets_offsets else "",
            "publish the rows of the table again" if self.slot and self.slot.republishes else "",
            "resume the connector, which is paused or stopped" if self.halted else "",
            "restart what failed" if self.failed else "",
        ]
        return ", ".join(filter(None, steps)) or "nothing to change"


def make_plan(
    found: Found | None,
    config: Mapping[str, str],
    slot: SlotPlan | None,
    *,
    origins: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Plan:
    """Return the way from the connector that is there to the one that is wanted.

    Args:
        origins: The keys of the spec that decide each option.
    """
    if found is None:
        return Plan(creates=True, changes=changes_between(None, config), slot=slot)
    condition = condition_of(found.status)
    return Plan(
        changes=changes_between(found.config, config, origins=origins, version=version_of(found.status.version)),
        slot=slot,
        republishes=found.is_republishing,
        halted=found.status.is_halted,
        failed=condition is Condition.FAILED,
        up=condition is Condition.UP,
        changes_log=reads_another_log(found.config, config),
    )
