"""Events as SQL and parameters, and the events again from the rows that came back. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from typing import Any

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import Row
from cdc_outbox.databases.sql import ParameterStyle, load
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import ConfigError, EventError, StaleSequenceError
from cdc_outbox.event import Event, RecordedEvent, SequenceMode
from cdc_outbox.writer.draft import Draft, emission


@dataclass(frozen=True, slots=True)
class Step:
    """One statement, ready to run.

    Args:
        reads_back: Whether it only asks for rows that an earlier step may have returned already.
    """

    sql: str
    reads_back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """What writes some events.

    Args:
        steps: In order, each with all the parameters; the last rows that come back show what was written.
        drafts: What it writes.
        undo: What undoes the steps where one after the first fails and the database would keep what came before it.
    """

    steps: tuple[Step, ...]
    parameters: Mapping[str, Any]
    drafts: Sequence[Draft]
    undo: tuple[Step, ...] = ()

    def undo_from(self, failed: Step) -> tuple[Step, ...]:
        """Return what undoes the steps before the one that failed."""
        return () if failed is self.steps[0] else self.undo


@dataclass(frozen=True, kw_only=True)
class OutboxStatements:
    """What an outbox writes, for one dialect and one way of naming parameters.

    Args:
        contract: ``None`` numbers every aggregate type gaplessly and sends it to the default topic.
    """

    table: OutboxTable
    contract: WireContract | None
    dialect: Dialect
    style: ParameterStyle

    def __post_init__(self) -> None:
        if self.emits and not self.dialect.features.has_publications:
            raise ConfigError(f"{self.dialect} has no logical messages", field="OutboxTable.mode")

    @property
    def emits(self) -> bool:
        """Whether events are logical messages instead of rows."""
        return self.table.mode is OutboxMode.MESSAGE

    def add(self, draft: Draft) -> Insertion:
        """Return what writes one event: one statement on PostgreSQL.

        Raises:
            EventError: The event cannot be written.
        """
        mode = self._mode(draft.event)
        if self.emits:
            return self._insertion(f"emit_{mode.statement_suffix}", emission(draft, self.table, mode), [draft])
        headers = {parameter: draft.columns.get(column) for column, parameter in self._header_parameters.items()}
        return self._insertion(f"add_{mode.statement_suffix}", draft.parameters() | headers, [draft])

    def add_all(self, drafts: Sequence[Draft]) -> list[Insertion]:
        """Return what writes many events, in an order that keeps two writers from waiting for each other.

        On PostgreSQL that is one statement for each sequence mode among them; elsewhere, for logical messages, and in a
        table without numbers, an event at a time.

        Raises:
            EventError: One of the events cannot be written.
        """
        in_order = sorted(drafts, key=lambda draft: (self._mode(draft.event), *_aggregate(draft.event)))
        self._refuse_descents([draft.event for draft in in_order])
        # A list says itself that ids are text; a parameter becomes what the column is: in others' tables a uuid, say.
        if self.emits or not self.table.is_numbered or "add_all_unsequenced" not in self._statements:
            return [self.add(draft) for draft in in_order]
        return [
            self._insertion(f"add_all_{mode.statement_suffix}", _listed(group := list(drafts_of_mode)), group)
            for mode, drafts_of_mode in groupby(in_order, key=lambda draft: self._mode(draft.event))
        ]

    def written(self, insertion: Insertion, rows: Iterable[Row]) -> list[RecordedEvent]:
        """Return the events with what the database added: sequence, source and time.

        Raises:
            StaleSequenceError: The aggregate's last sequence is not below that of the event, which was not written.
        """
        by_id = {row[0]: row for row in rows}
        for draft in insertion.drafts:
            if draft.id not in by_id:
                raise StaleSequenceError(
                    f"{draft.event} was not written: its aggregate is already at this sequence or above"
                )
        return [_completed(draft, *by_id[draft.id]) for draft in insertion.drafts]

    @cached_property
    def _header_parameters(self) -> Mapping[str, str]:
        return self.table.header_parameters

    @cached_property
    def _statements(self) -> Mapping[str, tuple[Step, ...]]:
        """Every statement of the dialect that this table has the columns for, each as its steps."""
        names, headers = self.table.names(self.dialect), self._header_parameters.values()
        return {
            name: tuple(
                Step(step.with_parameters("header_values", headers).render(names, self.style), step.reads_back)
                for step in statement.steps()
            )
            for name, statement in load(self.dialect, "outbox").items()
            if self.table.is_numbered or name.endswith(("unsequenced", "forget"))
        }

    def _insertion(self, name: str, parameters: Mapping[str, Any], drafts: Sequence[Draft]) -> Insertion:
        steps, undo = self._statements[name], self._statements.get(name.replace("add_", "undo_"), ())
        if self.table.mode is OutboxMode.DELETE:
            steps = (*steps, *self._statements["forget"])
            parameters = {**parameters, "ids": [draft.id for draft in drafts]}
        return Insertion(steps=steps, parameters=parameters, drafts=drafts, undo=undo)

    def _mode(self, event: Event) -> SequenceMode:
        """Return how the event is numbered, and refuse one that is numbered otherwise."""
        try:
            if self.contract is not None:
                mode = self.contract.mode_of(event.aggregate_type)
            else:
                _check_topic(event.aggregate_type)
                mode = SequenceMode.GAPLESS if self.table.is_numbered else SequenceMode.NONE
        except ConfigError as error:
            raise EventError(str(error), hint=error.hint) from error
        if mode.is_numbered and not self.table.is_numbered:
            raise EventError(f"{event.aggregate_type} is numbered, but the table has no columns for that")
        if mode.is_gapless and event.id is not None and not self.table.mode.keeps_rows:
            raise EventError(
                f"the mode {self.table.mode} keeps no rows, so an earlier write of {event.id} cannot be detected: it "
                "would get a second sequence number",
                hint="Leave Event.id unset; or number the type by the caller (sequence: increasing) or not at all.",
            )
        if mode.is_given_by_caller:
            if not isinstance(event.sequence, int) or not 0 < event.sequence < 2**63:
                raise EventError(f"{event.aggregate_type} is {mode}: give each event its sequence, from 1 upwards")
        elif event.sequence is not None:
            raise EventError("the writer assigns the sequence", hint="Leave Event.sequence unset.")
        return mode

    def _refuse_descents(self, events: Sequence[Event]) -> None:
        """Look inside the list, where the head row cannot: it moves once for all of an aggregate's events."""
        for before, after in pairwise(events):
            if _aggregate(before) == _aggregate(after) and (before.sequence or 0) >= (after.sequence or 1):
                raise EventError(f"{after} does not follow {before}")


@lru_cache(maxsize=1000)
def _check_topic(aggregate_type: str) -> None:
    """Refuse what Kafka would refuse as a topic; a contract of this one type does that."""
    WireContract(aggregates={aggregate_type: SequenceMode.NONE})


def _aggregate(event: Event) -> tuple[str, str]:
    return event.aggregate_type, event.aggregate_id


def _listed(drafts: Sequence[Draft]) -> dict[str, str]:
    """Return many events as one parameter: drivers take one text faster than arrays, and all take it alike."""
    listed = [draft.parameters() | {"headers": draft.columns or None} for draft in drafts]
    return {"events": json.dumps(listed, ensure_ascii=False, default=bytes.hex)}


def _completed(
    draft: Draft, event_id: str, sequence: int | None, source: str | None, created_at: datetime | str | None
) -> RecordedEvent:
    # Times come as text where the database has no type for them, and where the user could choose what they come as.
    # They are UTC, mostly without saying so.
    moment = datetime.fromisoformat(created_at) if isinstance(created_at, str) else created_at
    if moment is None:  # an adopted table may have no column for it
        moment = datetime.now(UTC)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return draft.event.recorded(event_id, moment, sequence=sequence, source=source)
