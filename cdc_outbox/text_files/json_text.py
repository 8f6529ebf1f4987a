"""JSON text as a document.

Stricter than most parsers: no key twice, no NaN, no depth without end. Looser in one thing: numbers and truth values
stay as they are written, for Kafka Connect takes every option as text.
"""

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder

from cdc_outbox.finding import Finding, Location, Severity
from cdc_outbox.text_files.document import MAX_BYTES, Document, Path, Span

_MAX_DEPTH = 100
_STRINGS = JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")
_HALVES = re.compile(r"[\ud800-\udfff]")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")

Json = dict[str, "Json"] | list["Json"] | str | None
"""What a document's content is made of: every scalar but null is text."""


def read_json(text: str, *, name: str) -> Document:
    """Return the document that a text holds; what is wrong with it as JSON becomes a finding, never an exception."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        return Document(name=name, findings=(_finding(name, None, f"larger than {MAX_BYTES} bytes."),))
    reader = _Reader(text.removeprefix("\ufeff"))
    try:
        content = reader.read()
    except _JsonRefused as refusal:
        line = reader.line_at(refusal.position)
        return Document(name=name, findings=(_finding(name, line, f"not JSON: {refusal}."),))
    return Document(name=name, content=content, lines=reader.lines, spans=reader.spans)


class _JsonRefused(ValueError):  # noqa: N818 - a signal inside this module
    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class _Reader:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._seen, self._line = 0, 1
        self.lines: dict[Path, int] = {}
        self.spans: dict[Path, Span] = {}

    def read(self) -> Json:
        """Return what the text says.

        Raises:
            _Refused: It is no JSON.
        """
        content = self._value(())
        if self._next():
            raise _JsonRefused("something follows the end", self._at)
        return content

    def line_at(self, position: int) -> int:
        """Return the line of a position, from 1; asked in the order of the text, it costs one pass."""
        if position < self._seen:
            self._seen, self._line = 0, 1
        self._line += self._text.count("\n", self._seen, position)
        self._seen = position
        return self._line

    def _value(self, path: Path, key: tuple[int, int] | None = None) -> Json:
        self._next()
        start = self._at
        content = self._content(path)
        self.spans[path] = Span(*(key or (start, start)), start, self._at)
        return content

    def _content(self, path: Path) -> Json:
        if len(path) > _MAX_DEPTH:
            raise _JsonRefused(f"deeper than {_MAX_DEPTH} levels", self._at)
        opening = self._next()
        self.lines.setdefault(path, self.line_at(self._at))
        match opening:
            case "{":
                return dict(self._members(path))
            case "[":
                return list(self._items(path))
            case '"':
                return self._string()
        scalar = _SCALAR.match(self._text, self._at)
        if scalar is None:
            raise _JsonRefused("a value is missing" if opening in {"", ",", "}", "]"} else "no value", self._at)
        self._at = scalar.end()
        return None if scalar[0] == "null" else scalar[0]

    def _members(self, path: Path) -> Iterator[tuple[str, Json]]:
        known: set[str] = set()
        for _ in self._elements("}"):
            start = self._at
            if self._next() != '"':
                raise _JsonRefused("a key in quotation marks is missing", self._at)
            key = self._string()
            if key in known:
                raise _JsonRefused(f"the key {key!r} appears twice", start)
            known.add(key)
            end = self._at
            self.lines[*path, key] = self.line_at(start)
            self._expect(":")
            yield key, self._value((*path, key), (start, end))

    def _items(self, path: Path) -> Iterator[Json]:
        for index in self._elements("]"):
            yield self._value((*path, index))

    def _elements(self, closing: str) -> Iterator[int]:
        """Stop at the beginning of each element of what has just been opened."""
        self._at += 1
        if self._next() == closing:
            self._at += 1
            return
        index = 0
        while True:
            self._next()
            yield index
            index += 1
            if self._next() == closing:
                self._at += 1
                return
            self._expect(",", f"a comma or {closing} is missing")

    def _string(self) -> str:
        try:
            text, self._at = _STRINGS.raw_decode(self._text, self._at)
        except JSONDecodeError as error:
            raise _JsonRefused(
                "a text that does not end, or holds a line's end or a wrong escape", error.pos
            ) from error
        if _HALVES.search(text):
            raise _JsonRefused("a text holds half a character", self._at)
        return str(text)

    def _expect(self, sign: str, problem: str = "") -> None:
        if self._next() != sign:
            raise _JsonRefused(problem or f"a {sign} is missing", self._at)
        self._at += 1

    def _next(self) -> str:
        """Return the next character that is no blank, empty at the end."""
        blanks = _BLANKS.match(self._text, self._at)
        self._at = blanks.end() if blanks else self._at
        return self._text[self._at : self._at + 1]


def _finding(name: str, line: int | None, message: str) -> Finding:
    return Finding(code="CC002", severity=Severity.ERROR, location=Location(document=name, line=line), message=message)
