"""Offsets as Connect shows them, and what it means for consumers that a connector goes on elsewhere. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_outbox.databases.binlog import BinlogPosition
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.config import BINLOG, kind_of
from cdc_outbox.errors import ConfigError, ConnectorInvalidError


def own_offset(offsets: Sequence[Mapping[str, Any]], *, topic_prefix: str) -> Mapping[str, Any] | None:
    """Return where a connector goes on, ``None`` if nothing is stored of that.

    Args:
        offsets: Everything that is stored under the connector's name, also from when it had another prefix.
    """
    own = (entry.get("offset") for entry in offsets if entry.get("partition", {}).get("server") == topic_prefix)
    return next(filter(None, own), None)


def last_lsn(offset: Mapping[str, Any]) -> Lsn | None:
    """Return the position of the last change that was published, by an offset of a PostgreSQL connector."""
    text = str(offset.get("lsn", ""))
    return Lsn(int(text)) if text.isdecimal() else None


def confirmed_lsn(offset: Mapping[str, Any]) -> Lsn | None:
    """Return up to where an offset of a PostgreSQL connector lets the slot move, ``None`` where it says no position.

    Debezium confirms ``lsn_commit`` (``PostgresStreamingChangeEventSource.commitOffset``), the end of the last
    transaction that it has read whole. ``lsn`` is the last change's own position: where two transactions overlap, it is
    the smaller one for as long as nothing follows, because the one that commits last may have written first.
    """
    found = [int(offset[key]) for key in ("lsn", "lsn_commit") if str(offset.get(key, "")).isdecimal()]
    return Lsn(max(found)) if found else None


_REPUBLISH = "Rows that the table still holds are published again by `deploy-connector --earlier-events republish`."
READS_NOTHING = {"no_data", "never", "schema_only", "schema_only_recovery", "recovery"}
"""Snapshot modes in which a connector without an offset publishes no row of the table."""

Position = Lsn | BinlogPosition
Offset = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """Where a connector goes on, and what that does.

    Args:
        text: One sentence.
        skips: Events may be left out for good.
    """

    text: str
    skips: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPosition:
    """Where a connector stands, by its configuration, its offsets and its slot.

    Args:
        slot: ``None`` where there is none, and where nobody asked.
        is_asked: Whether the database was asked for the slot.
    """

    config: Mapping[str, str]
    offsets: Sequence[Mapping[str, Any]]
    slot: SlotFacts | None = None
    is_asked: bool = False

    @property
    def topic_prefix(self) -> str:
        """Under which its offsets are stored."""
        return self.config.get("topic.prefix", "")

    @property
    def kind(self) -> DatabaseKind | None:
        """Whose connector it is, ``None`` for one that this package does not know."""
        return kind_of(self.config)

    @property
    def stored(self) -> Offset | None:
        """The offset that counts."""
        return own_offset(self.offsets, topic_prefix=self.topic_prefix)

    def entry(self, offset: Offset) -> dict[str, Any]:
        """Return an offset as Connect stores it, in the place of the one that counts.

        Raises:
            ConnectorInvalidError: There is none yet, and how this connector calls its partition is not known.
        """
        own = [entry for entry in self.offsets if entry.get("partition", {}).get("server") == self.topic_prefix]
        if not own and self.kind is not DatabaseKind.POSTGRESQL and self.kind not in BINLOG:
            raise ConnectorInvalidError(
                "no offset is stored yet, and how this connector calls its partition is not known here",
                hint="Let it run until `cdc-outbox offsets show` shows one.",
            )
        partition = own[0]["partition"] if own else {"server": self.topic_prefix}
        return {"partition": partition, "offset": dict(offset)}


def position_in(offset: Offset | None) -> Position | None:
    """Return the place in the log that an offset says, ``None`` where it says none that is known here."""
    if offset is None:
        return None
    lsn = confirmed_lsn(offset)
    if lsn is not None:
        return lsn
    file, position_in_file = offset.get("file"), str(offset.get("pos", ""))
    return BinlogPosition.of(str(file), int(position_in_file)) if file and position_in_file.isdecimal() else None


def read_offset(text: str, kind: DatabaseKind | None) -> Offset:
    """Return the offset that somebody wrote: a place in the log, or the offset itself as a JSON object.

    Raises:
        ConfigError: It is none.
    """
    if text.lstrip().startswith("{"):
        try:
            found: dict[str, Any] = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"the offset is no JSON: {error}", field="--to-offset") from error
        return found
    if kind is DatabaseKind.POSTGRESQL:
        lsn = Lsn.parse(text).value
        # All three, or Debezium would look for the transaction that the others speak of.
        return {"lsn": lsn, "lsn_proc": lsn, "lsn_commit": lsn}
    file, _, position_in_file = text.rpartition(":")
    position = (
        BinlogPosition.of(file, int(position_in_file))
        if kind is DatabaseKind.MYSQL and position_in_file.isdecimal()
        else None
    )
    if position is not None:
        # No GTIDs: where an offset has them, they count and not the place.
        return {"file": position.file, "pos": position.offset}
    wanted = "FILE:OFFSET, or " if kind is DatabaseKind.MYSQL else ""
    hint = f"Give {wanted}the whole offset as a JSON object, as `cdc-outbox offsets show` does."
    raise ConfigError(f"{text!r} is no offset of this connector", field="--to-offset", hint=hint)


def assess_set(position: ConnectorPosition, wanted: Offset) -> OffsetChange:
    """Return what another offset does.

    Raises:
        ConnectorInvalidError: It would do nothing but harm.
    """
    target, stored = position_in(wanted), position_in(position.stored)
    if position.kind is DatabaseKind.POSTGRESQL:
        return _judge_lsn(position, target if isinstance(target, Lsn) else None, stored)
    if position.kind is DatabaseKind.MARIADB and not wanted.get("gtids"):
        raise ConnectorInvalidError(
            "the offset of a MariaDB connector has gtids, and without them its task fails",
            hint="`select binlog_gtid_pos('FILE', OFFSET)` on the server tells those of a place.",
        )
    if isinstance(target, BinlogPosition) and isinstance(stored, BinlogPosition):
        if target > stored:
            return OffsetChange(f"what was committed between {stored} and {target} is never published", skips=True)
        if target < stored:
            text = f"what was committed between {target} and {stored} comes again, and consumers skip what they had"
            return OffsetChange(text, skips=False)
        return OffsetChange(f"the connector goes on at {target}, as it would have", skips=False)
    return OffsetChange("it is not known which events come again and which are never published", skips=True)


def _judge_lsn(position: ConnectorPosition, target: Lsn | None, stored: Position | None) -> OffsetChange:
    slot = position.slot
    if target is None:
        raise ConnectorInvalidError(
            "the offset of a PostgreSQL connector has an lsn", hint="Such as --to-offset 0/1A2B3C4."
        )
    if slot is None:
        raise ConnectorInvalidError(
            "there is no slot, and with an offset the task would fail for good",
            hint="Run `cdc-outbox deploy-connector`, which decides about slot and offset together.",
        )
    if target > slot.log_end:
        raise ConnectorInvalidError(
            f"the server's log ends at {slot.log_end}, before {target}: what is written until then would be lost",
            hint="Is it the offset of another server, or of this one before it was restored?",
        )
    if slot.confirmed is not None and target < slot.confirmed:
        raise ConnectorInvalidError(
            f"the slot {slot.name} has given away what lies before {slot.confirmed}: from {target} nothing comes again",
            hint=_REPUBLISH,
        )
    # The offset, wherever the slot is: behind it, what lies between was published; ahead of it, nobody has read that.
    stands = stored if isinstance(stored, Lsn) else slot.confirmed or target
    if target > stands:
        return OffsetChange(
            f"transactions that were committed between {stands} and {target} are never published "
            f"({target.value - stands.value:,} bytes of the log)",
            skips=True,
        )
    if target < stands:
        return OffsetChange(
            f"transactions that were committed between {target} and {stands} come again, and consumers skip what "
            "they had",
            skips=False,
        )
    return OffsetChange(f"the connector goes on at {target}, as it would have", skips=False)


def assess_reset(position: ConnectorPosition) -> OffsetChange:
    """Return what it does that no offset is stored any more."""
    mode = position.config.get("snapshot.mode", "initial")
    again = "" if mode in READS_NOTHING else "; every row that the table holds comes again"
    if position.kind is not DatabaseKind.POSTGRESQL:
        text = "the connector goes on at the end of the log: what is committed until it runs is never published"
        return OffsetChange(f"{text}{again}", skips=True)
    slot, stored = position.slot, position_in(position.stored)
    if not position.is_asked:
        return OffsetChange(
            f"whether anything is left out depends on the slot, and without --dsn it is not asked{again}", True
        )
    if slot is None:
        text = "there is no slot: what was committed before the connector makes one is never published"
        return OffsetChange(f"{text}{again}", skips=True)
    if isinstance(stored, Lsn) and slot.confirmed is not None and slot.confirmed < stored:
        text = f"transactions that were committed between {slot.confirmed} and {stored} come again"
        return OffsetChange(f"{text}, and consumers skip what they had{again}", skips=False)
    if isinstance(stored, Lsn) and slot.confirmed is not None and slot.confirmed > stored:
        text = f"the slot is ahead of the offset: what was committed between {stored} and {slot.confirmed}"
        return OffsetChange(f"{text} is never published{again}", skips=True)
    return OffsetChange(f"the connector goes on where its slot stands, at {slot.confirmed}{again}", skips=False)
