"""A file of properties as a document: how a worker without a cluster is given its connectors."""

import re
from collections.abc import Iterator

from cdc_outbox.text_files.document import Document, Outline, read_document, refuse_halves

_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_BLANKS = " \t\f"
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def looks_like_properties(text: str) -> bool:
    """Return whether a text begins as one: neither JSON nor YAML has ``=`` behind its first word."""
    line = next((line for _, line in _lines(text)), "")
    return re.match(r"[\w.-]+[ \t]*=", line) is not None


def read_properties(text: str, *, name: str) -> Document:
    """Return the document that a text holds; a key that stands twice is a finding, though Java takes the last."""
    return read_document(_parse, text, name=name, code="CC002")


def _parse(text: str, name: str) -> Document:
    content: dict[str, str] = {}
    outline = Outline(lines={(): 1})
    for number, line in _lines(text.removeprefix("\ufeff")):
        found = _KEY.match(line)
        key, value = ("", "") if found is None else (_plain(found[1]), _plain(line[found.end() :]))
        refuse_halves(value, number)
        outline.add_key((key,), number)
        content[key] = value
    return Document(name=name, content=content, lines=outline.lines)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Return each line that says something, with its number; a backslash at an end takes the next one along."""
    whole, first = "", 0
    for number, line in enumerate(_LINE_END.split(text), 1):
        piece = line.lstrip(_BLANKS)
        if not whole and (not piece or piece[0] in "#!"):
            continue
        first = first if whole else number
        goes_on = (len(piece) - len(piece.rstrip("\\"))) % 2 == 1
        whole += piece[:-1] if goes_on else piece
        if not goes_on:
            yield first, whole
            whole = ""
    if whole:
        yield first, whole


def _plain(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        return chr(int(found[1][1:], 16)) if len(found[1]) > 1 else _LETTERS.get(found[1], found[1])

    plain = _ESCAPE.sub(meant, text)
    # Two escapes may be the halves of one character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
