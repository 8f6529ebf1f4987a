"""The EventRouter's options as Connect gives them, read and refused as its ``configure()`` does it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cdc_outbox.contract.placements import Placement, PlacementKind, trim
from cdc_outbox.debezium.event_router.java import config_exception, null_pointer_exception, split
from cdc_outbox.errors import RoutingError

NEWEST_VERSION = (3, 7)
"""The release of Debezium, major and minor, whose options are meant where no other is given."""

_MISSING_IS_A_WORD = (3, 6)
"""Since then ``table.field.additional.missing``; before it ``table.fields.additional.error.on.missing``."""
_EMPTY_ARRAYS = (3, 7)
_TRUTH = {"true": True, "false": False}


class UpdateBehavior(StrEnum):
    """What becomes of an updated row; ``warn`` and ``error`` both drop it, and differ in the log only."""

    WARN = "warn"
    ERROR = "error"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class SmtOptions:
    """Reads the options of one EventRouter, by the rules of one release of Debezium."""

    options: Mapping[str, str]
    version: tuple[int, int] = NEWEST_VERSION

    def text(self, option: str, default: str) -> str:
        """Return an option's value as it stands."""
        return self.options.get(option, default)

    def optional_text(self, option: str) -> str | None:
        """Return an option's value as it stands, ``None`` if it is not set."""
        return self.options.get(option)

    def truth(self, option: str, *, default: bool = False) -> bool:
        """Return a switch."""
        text = self.options.get(option)
        if text is None:
            return default
        if trim(text).lower() not in _TRUTH:
            raise config_exception(f"{option} is neither 'true' nor 'false'")
        return _TRUTH[trim(text).lower()]

    def choice(self, option: str, words: tuple[str, ...]) -> str:
        """Return one of several words, the first by default."""
        word = trim(self.options.get(option, words[0])).lower()
        if word not in words:
            raise config_exception(f"{option} must be one of {', '.join(words)}")
        return word

    def update_behavior(self) -> UpdateBehavior:
        """Return what becomes of an updated row."""
        return UpdateBehavior(self.choice("table.op.invalid.behavior", tuple(UpdateBehavior)))

    def ignores_missing(self) -> bool:
        """Return whether a row may lack a placed column; the other release's option is ignored, as it is there."""
        if self.version < _MISSING_IS_A_WORD:
            return not self.truth("table.fields.additional.error.on.missing", default=True)
        return self.choice("table.field.additional.missing", ("error", "ignore")) == "ignore"

    def expands_json(self) -> bool:
        """Return whether payloads are expanded; what only matters then is checked all the same."""
        self.choice("table.json.payload.null.behavior", ("ignore", "optional_bytes"))
        if self.version >= _EMPTY_ARRAYS:
            self.choice("table.json.payload.empty.array.behavior", ("ignore", "optional_string"))
        return self.truth("table.expand.json.payload")

    def placements(self) -> tuple[Placement, ...]:
        """Return the columns that are placed."""
        text = self.options.get("table.fields.additional.placement")
        return () if text is None else tuple(map(_placement, split(text, ",")))


def _placement(entry: str) -> Placement:
    parts = split(entry, ":")
    if len(parts) not in {2, 3}:
        raise config_exception(
            "table.fields.additional.placement is not a list of column:placement and column:placement:alias"
        )
    word = trim(parts[1]).lower()
    kind = PlacementKind(word) if word in tuple(PlacementKind) else None
    return Placement(trim(parts[0]), kind, trim(parts[2]) if len(parts) == 3 else None)


def unknown_placement(placement: Placement) -> RoutingError:
    """Return what a placement of an unknown kind throws at the first row."""
    return null_pointer_exception(f"{placement.column} must be placed in one of {', '.join(PlacementKind)}")
