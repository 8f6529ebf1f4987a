"""JSON text as a document.

Stricter than most parsers: no key twice, no NaN, no depth without end. Looser in one thing: numbers and truth values
stay as they are written, for Kafka Connect takes every option as text.
"""

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder

from cdc_outbox.text_files.document import Document, Outline, Path, RefusedTextError, Span, read_document, refuse_halves

_STRINGS = JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")

Json = dict[str, "Json"] | list["Json"] | str | None
"""What a document's content is made of: every scalar but null is text."""


def read_json(text: str, *, name: str) -> Document:
    """Return the document that a text holds; an error in its JSON becomes a finding, never an exception."""
    return read_document(_parse, text, name=name, code="CC002")


def _parse(text: str, name: str) -> Document:
    reader = _Reader(text.removeprefix("\ufeff"))
    return Document(name=name, content=reader.read(), lines=reader.outline.lines, spans=reader.outline.spans)


class _Reader:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._seen, self._line = 0, 1
        self.outline = Outline()

    def read(self) -> Json:
        """Return what the text says.

        Raises:
            RefusedTextError: It is no JSON.
        """
        content = self._value(())
        if self._next():
            raise self._no_json("something follows the end")
        return content

    def _no_json(self, problem: str, position: int | None = None) -> RefusedTextError:
        return RefusedTextError(f"not JSON: {problem}.", self._line_at(self._at if position is None else position))

    def _line_at(self, position: int) -> int:
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
        self.outline.spans[path] = Span(*(key or (start, start)), start, self._at)
        return content

    def _content(self, path: Path) -> Json:
        opening, line = self._next(), self._line_at(self._at)
        self.outline.add_value(path, line)
        match opening:
            case "{":
                return dict(self._members(path))
            case "[":
                return list(self._items(path))
            case '"':
                return self._string(line)
        scalar = _SCALAR.match(self._text, self._at)
        if scalar is None:
            raise self._no_json("a value is missing" if opening in {"", ",", "}", "]"} else "no value")
        self._at = scalar.end()
        return None if scalar[0] == "null" else scalar[0]

    def _members(self, path: Path) -> Iterator[tuple[str, Json]]:
        for _ in self._elements("}"):
            start = self._at
            if self._next() != '"':
                raise self._no_json("a key in quotation marks is missing")
            line = self._line_at(start)
            key = self._string(line)
            self.outline.add_key((*path, key), line)
            end = self._at
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

    def _string(self, line: int) -> str:
        try:
            text, self._at = _STRINGS.raw_decode(self._text, self._at)
        except JSONDecodeError as error:
            problem = "a text that does not end, or holds a line's end or a wrong escape"
            raise self._no_json(problem, error.pos) from error
        refuse_halves(text, line)
        return str(text)

    def _expect(self, sign: str, problem: str = "") -> None:
        if self._next() != sign:
            raise self._no_json(problem or f"a {sign} is missing")
        self._at += 1

    def _next(self) -> str:
        """Return the next character that is no blank, empty at the end."""
        blanks = _BLANKS.match(self._text, self._at)
        self._at = blanks.end() if blanks else self._at
        return self._text[self._at : self._at + 1]
