"""Events as SQL and parameters, and the events again from the rows that came back. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import Row
from cdc_outbox.databases.sql import ParameterStyle, Statement, load
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import ConfigError, EventError, StaleSequenceError
from cdc_outbox.event import Event, RecordedEvent, SequenceMode, new_event_id
from cdc_outbox.writer.draft import Draft, emission


@dataclass(frozen=True, slots=True)
class Step:
    """One statement, ready to run.

    Args:
        reads_back: Whether it only asks for rows that an earlier step may have returned already.
    """

    sql: str
    reads_back: bool


class StepPlan(NamedTuple):
    """The statements that write events of one sequence mode.

    Args:
        steps: In order, each with all the parameters; the last rows that come back show what was written.
        block: The same as one statement, for servers that execute such; ``None`` where there is no need.
        undo: What undoes the steps where one fails and the database would keep what came before it.
        writes_many: Whether the rows that come back end with an id, because there may be many.
    """

    steps: tuple[Step, ...]
    block: Step | None = None
    undo: tuple[Step, ...] = ()
    writes_many: bool = False

    def undo_from(self, failed: Step, error: BaseException) -> tuple[Step, ...]:
        """Return what undoes a step that failed or was interrupted, and those before it."""
        # The first statement did nothing where the database refused it, and would do so once more: it may be locked.
        refused = failed is self.steps[0] and isinstance(error, Exception)
        return () if refused else self.undo


class Insertion(NamedTuple):
    """What writes some events: a plan and its parameters."""

    plan: StepPlan
    parameters: Mapping[str, Any]
    drafts: Sequence[Draft]

    @property
    def ids(self) -> list[tuple[Event, str]]:
        """The events with their ids."""
        return [(draft.event, draft.id) for draft in self.drafts]


def _recorded(event: Event, event_id: str, rows: Sequence[Sequence[Any]]) -> RecordedEvent:
    if not rows:
        raise StaleSequenceError(f"{event} was not written: its aggregate is already at this sequence or above")
    source, created_at, *sequence = rows[0]  # an unnumbered event has none
    # Times come as text where the database has no type for them, and where the user could choose what they come as.
    # They are UTC, mostly without a zone. Parsing a text twice takes a third of the time of `replace`.
    if isinstance(created_at, str):
        text = created_at
        created_at = datetime.fromisoformat(text)
        if created_at.tzinfo is None:
            created_at = datetime.fromisoformat(f"{text}+00:00")
    elif created_at is None:  # an adopted table may have no column for it
        created_at = datetime.now(UTC)
    if created_at.tzinfo is None:  # also a text that is only a date, after which no zone is parsed
        created_at = created_at.replace(tzinfo=UTC)
    return event.recorded(event_id, created_at, sequence=sequence[0] if sequence else None, source=source)


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

    @cached_property
    def without_headers(self) -> "OutboxStatements":
        """The same for events without headers, with statements that do not name header columns, which saves time.

        Adopted tables have no such statements: their header columns may have defaults, which ``add_all`` overrides.
        """
        is_short = self.table.headers and not self.table.adopted
        return replace(self, table=replace(self.table, headers={})) if is_short else self

    @cached_property
    def emits(self) -> bool:
        """Whether events are logical messages instead of rows."""
        return self.table.mode is OutboxMode.MESSAGE

    def add(self, draft: Draft) -> Insertion:
        """Return what writes one event: one statement on PostgreSQL.

        Raises:
            EventError: The event cannot be written.
        """
        mode = self.mode_of(draft.event)
        if self.emits:
            return self._insertion(f"emit_{mode.statement_suffix}", emission(draft, self.table, mode), (draft,))
        if not draft.columns and self.without_headers is not self:
            return self.without_headers.add(draft)
        headers = {parameter: draft.columns.get(column) for column, parameter in self._header_parameters.items()}
        return self._insertion(f"add_{mode.statement_suffix}", self.parameters_of(draft) | headers, (draft,))

    def add_all(self, drafts: Sequence[Draft]) -> list[Insertion]:
        """Return what writes many events, in an order that keeps two writers from waiting for each other.

        On PostgreSQL that is one statement for each sequence mode among them; elsewhere, for logical messages, and in a
        table without numbers, an event at a time.

        Raises:
            EventError: One of the events cannot be written.
        """
        in_order = sorted(drafts, key=lambda draft: (self.mode_of(draft.event), *_aggregate(draft.event)))
        self._refuse_descents([draft.event for draft in in_order])
        # A list says itself that ids are text; a parameter becomes what the column is: in others' tables a uuid, say.
        if self.emits or not self.table.is_numbered or "add_all_unsequenced" not in self._statements:
            return [self.add(draft) for draft in in_order]
        return [
            self._insertion(f"add_all_{mode.statement_suffix}", _listed(group := list(drafts_of_mode)), group)
            for mode, drafts_of_mode in groupby(in_order, key=lambda draft: self.mode_of(draft.event))
        ]

    def written(self, insertion: Insertion, rows: Sequence[Row]) -> list[RecordedEvent]:
        """Return the events with what the database added: sequence, source and time.

        Raises:
            StaleSequenceError: The aggregate's last sequence is not below that of the event, which was not written.
        """
        if not insertion.plan.writes_many:
            [(event, event_id)] = insertion.ids
            return [_recorded(event, event_id, rows)]
        by_id = {event_id: [row] for *row, event_id in rows}
        return [_recorded(draft.event, draft.id, by_id.get(draft.id, [])) for draft in insertion.drafts]

    written_alone = staticmethod(_recorded)
    """Returns the event that :meth:`written` returns for a plan of one event; takes the event, its id and the rows."""

    @cached_property
    def _header_parameters(self) -> Mapping[str, str]:
        return self.table.header_parameters

    @cached_property
    def _statements(self) -> Mapping[str, tuple[Step, ...]]:
        """Every statement of the dialect that this table has the columns for, each as its steps."""
        return {
            name: tuple(self._step(name, step) for step in statement.steps())
            for name, statement in load(self.dialect, "outbox").items()
            if self.table.is_numbered or name.endswith(("unsequenced", "forget"))
        }

    def _step(self, name: str, step: Statement) -> Step:
        # Statements of lists are not executed by `fetch_often`.
        casts_times = self.style.casts_times and not name.startswith("add_all_")
        # An adopted table's column may have another type, in which a constant would have another meaning.
        if self.style.writes_constants and not self.table.adopted:
            step = step.without_casts()
        named = step.with_parameters("header_values", self._header_parameters.values())
        return Step(named.render(self.table.names(self.dialect, casts_times=casts_times), self.style), step.reads_back)

    def parameters_of(self, draft: Draft) -> dict[str, Any]:
        """Return the parameters of one event, without those of its headers."""
        parameters = draft.parameters()
        if self.dialect.features.marks_heads:
            parameters["mark"] = mark_of(draft.event, draft.id)
        return parameters

    def plan_of(self, mode: SequenceMode) -> StepPlan:
        """Return what writes one event's row."""
        return self._plans[f"add_{mode.statement_suffix}"]

    @cached_property
    def _plans(self) -> Mapping[str, StepPlan]:
        return {name: self._plan(name, steps) for name, steps in self._statements.items()}

    def _plan(self, name: str, steps: tuple[Step, ...]) -> StepPlan:
        in_block = self._statements.get(name.replace("add_", "block_"), steps)
        if self.table.mode is OutboxMode.DELETE:
            forget = self._statements["forget"]
            steps, in_block = (*steps, *forget), (*in_block, *forget)
        undo = self._statements.get(name.replace("add_", "undo_"), ()) if name.startswith("add_") else ()
        needed, block = [step.sql for step in in_block if not step.reads_back], self.dialect.features.block
        is_one = not block or len(needed) == 1
        return StepPlan(
            steps,
            None if is_one else Step(block.format(";\n".join(needed)), reads_back=False),
            undo,
            writes_many=name.startswith("add_all_"),
        )

    def _insertion(self, name: str, parameters: Mapping[str, Any], drafts: Sequence[Draft]) -> Insertion:
        if self.table.mode is OutboxMode.DELETE:
            parameters = {**parameters, "ids": [draft.id for draft in drafts]}
        return Insertion(self._plans[name], parameters, drafts)

    def mode_of(self, event: Event) -> SequenceMode:
        """Return how the event is numbered, and refuse one that is numbered otherwise.

        Raises:
            EventError: Its aggregate type is not in the contract, or its number or its id is not the caller's to give.
        """
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


def mark_of(event: Event, event_id: str) -> str:
    """Return what marks the head that an insertion moves: not a caller's id, which may have been there before."""
    return event_id if event.id is None else new_event_id()


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
