"""Rows in columns."""

from collections.abc import Iterator, Sequence

from cdc_outbox.safe_text import visible


def in_columns(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines whose cells stand below each other; the first has the titles."""
    shown = [[visible(cell) or "-" for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for line in shown:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
