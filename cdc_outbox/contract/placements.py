"""One entry of the EventRouter's option ``table.fields.additional.placement``; ``wire`` has our headers' names."""

from dataclasses import dataclass
from enum import StrEnum

from cdc_outbox.errors import ConfigError

_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's ``String.trim`` takes away, other characters than Python's ``str.strip``."""


def trim(text: str) -> str:
    """Trim as ``String.trim`` does."""
    return text.strip(_BLANKS)


class PlacementKind(StrEnum):
    """Where an additional column goes."""

    HEADER = "header"
    ENVELOPE = "envelope"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Placement:
    """One entry of ``table.fields.additional.placement``.

    Args:
        kind: ``None`` for a word that is none, which only the first row shows.
        alias: The name of the header or of the envelope's field, the column's own by default; a partition has none.
    """

    column: str
    kind: PlacementKind | None = PlacementKind.HEADER
    alias: str | None = None

    @property
    def name(self) -> str:
        """The name of the header or the field that the column becomes."""
        return self.column if self.alias is None else self.alias

    def entry(self) -> str:
        """Return it as the option has it.

        Raises:
            ConfigError: A name would not come out as it went in.
        """
        for name in (self.column, self.name):
            if name != trim(name) or not name or set(name) & set(":,"):
                raise ConfigError(
                    f"{name!r} cannot be placed: it is empty, or contains a colon, a comma or a blank at an end",
                    field="placements",
                )
        return ":".join(filter(None, (self.column, self.kind, self.alias)))
