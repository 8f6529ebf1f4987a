"""PostgreSQL's log sequence number as a type of its own."""

import re
from dataclasses import dataclass
from typing import Self

from cdc_outbox.errors import ConfigError

_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


@dataclass(frozen=True, slots=True, order=True)
class Lsn:
    """A position in the write-ahead log; positions compare in log order.

    An LSN says where something lies. It is not an id: rows of one COPY share one, and so can neighbouring
    transactions.
    """

    value: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read PostgreSQL's form, two hexadecimal halves with a slash: ``16/B374D848``."""
        halves = _TEXT.fullmatch(text)
        if halves is None:
            raise ConfigError(f"{text!r} is not an LSN, such as 0/1A2B3C4")
        return cls(int(halves[1], 16) << 32 | int(halves[2], 16))

    def __str__(self) -> str:
        return f"{self.value >> 32:X}/{self.value & 0xFFFFFFFF:X}"
