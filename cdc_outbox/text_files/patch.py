"""A change of one key in a text of JSON or YAML that leaves everything else as it is written."""

import json
import re

from cdc_outbox.text_files.document import YAML_WORDS, Document, Path

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+)*")


class Patch:
    """One text, and where its keys stand. What cannot be changed without a rewrite is left: ``None`` instead of a text.

    Args:
        document: The document that was read from exactly this text.
    """

    def __init__(self, text: str, document: Document) -> None:
        self._text = text
        self._spans = document.spans

    def rename(self, path: Path, key: str) -> str | None:
        """Return the text with another key."""
        span = self._spans.get(path)
        return None if span is None else self._with(span.key, span.key_end, self._as_at(span.key, key))

    def put(self, path: Path, value: str) -> str | None:
        """Return the text with another value."""
        span = self._spans.get(path)
        return None if span is None else self._with(span.value, self._end(path), self._as_at(span.value, value))

    def add(self, path: Path, value: str, *, after: str) -> str | None:
        """Return the text with a key more, behind another one of its neighbours, or the last if that is none."""
        inside = self._inside(path[:-1])
        if not inside:
            return None
        beside = (*path[:-1], after) if (*path[:-1], after) in inside else inside[-1]
        span, end = self._spans[beside], self._end(beside)
        key = self._as_at(span.key, str(path[-1]))
        colon = self._text[span.key_end : span.value] if "\n" not in self._text[span.key_end : span.value] else ": "
        member = f"{key}{colon}{self._as_at(span.value, value)}"
        indent = self._indent(span.key)
        between = f"{self._newline}{indent}" if indent is not None else " "
        if self._is_flow(path[:-1]):
            return self._with(end, end, f",{between}{member}")
        if indent is None:
            return None
        line_end = self._line_end(end)
        return self._with(line_end, line_end, f"{between}{member}")

    def remove(self, path: Path) -> str | None:
        """Return the text without a key and its value."""
        if path not in self._spans or not path:
            return None
        span, end = self._spans[path], self._end(path)
        if self._is_flow(path[:-1]):
            following = re.compile(r"\s*,\s*").match(self._text, end)
            if following:
                return self._with(span.key, following.end(), "")
            return self._with(len(self._text[: span.key].rstrip().removesuffix(",")), end, "")
        while len(path) > 1 and self._inside(path[:-1]) == [path]:
            path = path[:-1]  # a key with nothing below it would be null
        if self._indent(self._spans[path].key) is None:
            return None
        return self._with(self._line_start(self._spans[path].key), self._text.find("\n", end) + 1 or None, "")

    def _with(self, start: int, end: int | None, text: str) -> str:
        return self._text[:start] + text + ("" if end is None else self._text[end:])

    def _inside(self, around: Path) -> list[Path]:
        return [path for path in self._spans if path and path[:-1] == around]

    def _is_flow(self, around: Path) -> bool:
        return self._text.startswith("{", self._spans[around].value)

    def _end(self, path: Path) -> int:
        """Return where a value ends; YAML counts the blanks behind some."""
        span = self._spans[path]
        return span.value + len(self._text[span.value : span.end].rstrip())

    def _line_start(self, position: int) -> int:
        return self._text.rfind("\n", 0, position) + 1

    def _line_end(self, position: int) -> int:
        return position + len(self._text[position:].partition("\n")[0].removesuffix("\r"))

    def _indent(self, position: int) -> str | None:
        """Return what stands before a key in its line, ``None`` if that is more than blanks."""
        before = self._text[self._line_start(position) : position]
        return None if before.strip() else before

    @property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self._text else "\n"

    def _as_at(self, position: int, word: str) -> str:
        """Return a word as a key or value, in quotation marks unless YAML's stands there without."""
        bare = not self._text.startswith(('"', "'", "{", "["), position)
        is_yaml = self._text.lstrip()[:1] not in {"{", "["}
        if bare and is_yaml and _PLAIN.fullmatch(word) and word.lower() not in YAML_WORDS:
            return word
        return json.dumps(word, ensure_ascii=False)
