"""Offsets as Connect returns them, and the impact of changing them. Pure."""

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
    """Return the offset at which a connector continues, ``None`` if none is stored.

    Args:
        offsets: All stored offsets of the connector's name, including those of former prefixes.
    """
    own = (entry.get("offset") for entry in offsets if entry.get("partition", {}).get("server") == topic_prefix)
    return next(filter(None, own), None)


def last_lsn(offset: Mapping[str, Any]) -> Lsn | None:
    """Return the position of the last published change from an offset of a PostgreSQL connector."""
    text = str(offset.get("lsn", ""))
    return Lsn(int(text)) if text.isdecimal() else None


def confirmed_lsn(offset: Mapping[str, Any]) -> Lsn | None:
    """Return the position up to which an offset of a PostgreSQL connector confirms the slot, ``None`` if it has none.

    Debezium confirms ``lsn_commit`` (``PostgresStreamingChangeEventSource.commitOffset``), the end of the last
    transaction that it has read whole. ``lsn`` is the last change's own position: where two transactions overlap, it is
    the smaller one for as long as nothing follows, because the one that commits last may have written first.
    """
    found = [int(offset[key]) for key in ("lsn", "lsn_commit") if str(offset.get(key, "")).isdecimal()]
    return Lsn(max(found)) if found else None


_REPUBLISH = "`cdc-outbox deploy-connector --earlier-events republish` publishes the rows of the table again."
READS_NOTHING = {"no_data", "never", "schema_only", "schema_only_recovery", "recovery"}
"""Snapshot modes in which a connector without an offset publishes no row of the table."""

Position = Lsn | BinlogPosition
Offset = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """The impact of changing a connector's offset.

    Args:
        text: One sentence.
        skips: Events may never be published.
    """

    text: str
    skips: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPosition:
    """A connector's configuration, offsets and slot.

    Args:
        slot: ``None`` if it does not exist, or was not read.
        is_asked: Whether the database was queried for the slot.
        relayed: Up to where relays published what the slot held, ``None`` if none did.
    """

    config: Mapping[str, str]
    offsets: Sequence[Mapping[str, Any]]
    slot: SlotFacts | None = None
    is_asked: bool = False
    relayed: Lsn | None = None

    @property
    def topic_prefix(self) -> str:
        """The prefix under which its offsets are stored."""
        return self.config.get("topic.prefix", "")

    @property
    def kind(self) -> DatabaseKind | None:
        """The kind of connector, ``None`` if it is not one of Debezium's six."""
        return kind_of(self.config)

    @property
    def stored(self) -> Offset | None:
        """The offset of the current prefix."""
        return own_offset(self.offsets, topic_prefix=self.topic_prefix)

    @property
    def is_relayed(self) -> bool:
        """Whether relays published everything up to the slot."""
        confirmed = None if self.slot is None else self.slot.confirmed
        return confirmed is not None and self.relayed is not None and confirmed <= self.relayed

    def entry(self, offset: Offset) -> dict[str, Any]:
        """Return an offset as Connect stores it, with the partition of the current one.

        Raises:
            ConnectorInvalidError: No offset is stored yet, and the partition of this kind of connector is not known.
        """
        own = [entry for entry in self.offsets if entry.get("partition", {}).get("server") == self.topic_prefix]
        if not own and self.kind is not DatabaseKind.POSTGRESQL and self.kind not in BINLOG:
            raise ConnectorInvalidError(
                "no offset is stored yet, and the offset partition of this kind of connector is not known",
                hint="Run the connector until `cdc-outbox offsets show` shows an offset.",
            )
        partition = own[0]["partition"] if own else {"server": self.topic_prefix}
        return {"partition": partition, "offset": dict(offset)}


def position_in(offset: Offset | None) -> Position | None:
    """Return the position of an offset in the log, ``None`` if it has no known one."""
    if offset is None:
        return None
    lsn = confirmed_lsn(offset)
    if lsn is not None:
        return lsn
    file, position_in_file = offset.get("file"), str(offset.get("pos", ""))
    return BinlogPosition.of(str(file), int(position_in_file)) if file and position_in_file.isdecimal() else None


def read_offset(text: str, kind: DatabaseKind | None) -> Offset:
    """Parse an offset of a command line: a position in the log, or the offset as a JSON object.

    Raises:
        ConfigError: It is not an offset of this kind of connector.
    """
    if text.lstrip().startswith("{"):
        try:
            found: dict[str, Any] = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"the offset is not valid JSON: {error}", field="--to-offset") from error
        return found
    if kind is DatabaseKind.POSTGRESQL:
        lsn = Lsn.parse(text).value
        # All three, otherwise Debezium searches for the transaction of the others.
        return {"lsn": lsn, "lsn_proc": lsn, "lsn_commit": lsn}
    file, _, position_in_file = text.rpartition(":")
    position = (
        BinlogPosition.of(file, int(position_in_file))
        if kind is DatabaseKind.MYSQL and position_in_file.isdecimal()
        else None
    )
    if position is not None:
        # No GTIDs: they would take precedence over the position.
        return {"file": position.file, "pos": position.offset}
    wanted = "FILE:OFFSET, or " if kind is DatabaseKind.MYSQL else ""
    hint = f"Write {wanted}the whole offset as a JSON object, as `cdc-outbox offsets show` prints it."
    raise ConfigError(f"{text!r} is not an offset of this connector", field="--to-offset", hint=hint)


def assess_set(position: ConnectorPosition, wanted: Offset) -> OffsetChange:
    """Return the impact of another offset.

    Raises:
        ConnectorInvalidError: The offset would lose events or fail the task.
    """
    target, stored = position_in(wanted), position_in(position.stored)
    if position.kind is DatabaseKind.POSTGRESQL:
        return _assess_lsn(position, target if isinstance(target, Lsn) else None, stored)
    if position.kind is DatabaseKind.MARIADB and not wanted.get("gtids"):
        raise ConnectorInvalidError(
            "the offset of a MariaDB connector needs gtids; without them its task fails",
            hint="`select binlog_gtid_pos('FILE', OFFSET)` on the server returns the gtids of a position.",
        )
    if isinstance(target, BinlogPosition) and isinstance(stored, BinlogPosition):
        if target > stored:
            return OffsetChange(
                f"events that were committed between {stored} and {target} are never published", skips=True
            )
        if target < stored:
            text = f"events committed between {target} and {stored} are published again; consumers skip duplicates"
            return OffsetChange(text, skips=False)
        return OffsetChange(f"the connector continues at {target}, as without the change", skips=False)
    return OffsetChange("cannot determine which events would be republished or skipped", skips=True)


def _assess_lsn(position: ConnectorPosition, target: Lsn | None, stored: Position | None) -> OffsetChange:
    slot = position.slot
    if target is None:
        raise ConnectorInvalidError(
            "the offset of a PostgreSQL connector needs an lsn", hint="Write for example --to-offset 0/1A2B3C4."
        )
    if slot is None:
        raise ConnectorInvalidError(
            "the slot does not exist, and with an offset the task would fail at every start",
            hint="Run `cdc-outbox deploy-connector`, which plans slot and offset together.",
        )
    if target > slot.log_end:
        raise ConnectorInvalidError(
            f"the server's log ends at {slot.log_end}, before {target}: events up to that position would be lost",
            hint="Check whether the offset belongs to another server, or to this one before a restore.",
        )
    if slot.confirmed is not None and target < slot.confirmed:
        raise ConnectorInvalidError(
            f"the slot {slot.name} no longer holds events before {slot.confirmed}: {target} republishes nothing",
            hint=_REPUBLISH,
        )
    # Compare with the offset: events between it and a slot behind it were published, and between it and a slot ahead of
    # it were read by relays or not at all.
    stands = stored if isinstance(stored, Lsn) and not position.is_relayed else slot.confirmed or target
    if target > stands:
        return OffsetChange(
            f"transactions committed between {stands} and {target} are never published "
            f"({target.value - stands.value:,} bytes of the log)",
            skips=True,
        )
    if target < stands:
        return OffsetChange(
            f"transactions committed between {target} and {stands} are published again; consumers skip duplicates",
            skips=False,
        )
    return OffsetChange(f"the connector continues at {target}, as without the change", skips=False)


def assess_reset(position: ConnectorPosition) -> OffsetChange:
    """Return the impact of resetting the offsets."""
    mode = position.config.get("snapshot.mode", "initial")
    again = "" if mode in READS_NOTHING else "; every row of the table is published again"
    if position.kind is not DatabaseKind.POSTGRESQL:
        text = (
            "the connector continues at the end of the log: events that are committed until it runs are never published"
        )
        return OffsetChange(f"{text}{again}", skips=True)
    slot, stored = position.slot, position_in(position.stored)
    if not position.is_asked:
        return OffsetChange(
            f"whether events are skipped depends on the slot, which is not read without --dsn{again}", True
        )
    if slot is None:
        text = "the slot does not exist: events that are committed before the connector creates one are never published"
        return OffsetChange(f"{text}{again}", skips=True)
    if isinstance(stored, Lsn) and slot.confirmed is not None and slot.confirmed < stored:
        text = f"transactions that were committed between {slot.confirmed} and {stored} are published again"
        return OffsetChange(f"{text}; consumers skip duplicates{again}", skips=False)
    if isinstance(stored, Lsn) and slot.confirmed is not None and slot.confirmed > stored and not position.is_relayed:
        text = f"the slot is ahead of the offset: events that were committed between {stored} and {slot.confirmed}"
        return OffsetChange(f"{text} are never published{again}", skips=True)
    return OffsetChange(f"the connector continues at the position of its slot, {slot.confirmed}{again}", skips=False)
