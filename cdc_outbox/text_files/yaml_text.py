"""YAML text as a document.

Stricter than YAML: no duplicate keys, no anchors or aliases (a few lines of them can expand to gigabytes), at most a
megabyte and 64 levels, one document unless several are asked for. What stands in the file is what is meant.
"""

import re
from functools import partial
from typing import Any

import yaml
from yaml.reader import ReaderError

from cdc_outbox.text_files.document import (
    YAML_WORDS,
    Document,
    JsonValue,
    Outline,
    Path,
    RefusedTextError,
    Span,
    read_document,
    refuse_deep,
    refuse_halves,
)

_TYPES = "tag:yaml.org,2002:"
"""What the tag of a type of YAML's own begins with."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def as_yaml(text: str) -> str:
    """Return a text as YAML that reads as that text, in quotation marks only where it needs them."""
    if _PLAIN.fullmatch(text) and text.lower() not in YAML_WORDS:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08X}" for each in escaped) + '"'


def read_yaml(text: str, *, name: str, several: bool = False) -> Document:
    """Return the document that a text holds; errors in its YAML become findings, never an exception.

    Empty documents are left out.

    Args:
        several: Read several documents as a list of them, instead of refusing the second one.
    """
    return read_document(partial(_parse, several=several), text, name=name, code="SP001")


def _parse(text: str, name: str, *, several: bool) -> Document:
    outline = Outline()
    content: Any = None
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=_BoundedLoader) if not _is_empty(node)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        problem = error.problem or error.context or ""
        advice = " Indent with spaces, not tabs." if repr("\t") in problem else ""
        raise RefusedTextError(f"not YAML: {problem}.{advice}", line) from error
    except ReaderError as error:
        problem = f"not YAML: it holds the character U+{error.character:04X}."
        raise RefusedTextError(problem, text.count("\n", 0, error.position) + 1) from error
    if len(nodes) == 1:
        content = _plain(nodes[0], (), outline)
    elif several and nodes:
        outline.lines[()] = 1
        content = [_plain(node, (index,), outline) for index, node in enumerate(nodes)]
    elif nodes:
        raise RefusedTextError("several documents, where one is expected.", nodes[1].start_mark.line + 1)
    return Document(name=name, content=content, lines=outline.lines, spans=outline.spans)


class _BoundedLoader(yaml.SafeLoader):
    """Refuses anchors and aliases where they stand, and a deep text where it becomes deep.

    The depth is limited while PyYAML reads, because what it does for a token grows with the levels around it. Brackets
    that are counted before it reads them mislead: some stand in comments and in quotes.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            mark = event.start_mark
            raise RefusedTextError("anchors and aliases are not taken.", mark.line + 1 if mark else 1)
        return super().compose_node(parent, index)

    def scan_flow_scalar(self, style: str) -> yaml.ScalarToken:
        line = self.line + 1
        try:
            return super().scan_flow_scalar(style)
        except (OverflowError, ValueError) as error:
            # PyYAML does not check that an escape such as \U00110000 is the number of a character.
            raise RefusedTextError("not YAML: an escape in quotes stands for no character.", line) from error

    def fetch_flow_collection_start(self, token_class: object) -> None:
        self._refuse_deep()
        super().fetch_flow_collection_start(token_class)

    def add_indent(self, column: int) -> bool:
        self._refuse_deep()
        return bool(super().add_indent(column))

    def _refuse_deep(self) -> None:
        refuse_deep(self.flow_level + len(self.indents), self.line + 1)


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.value and node.style is None


def _plain(node: yaml.Node, path: Path, outline: Outline) -> JsonValue:
    start, end = node.start_mark.index, node.end_mark.index
    outline.add_value(path, node.start_mark.line + 1)
    outline.spans[path] = Span(start, start, start, end)
    match node:
        case yaml.MappingNode():
            content: dict[str, Any] = {}
            for key_node, value_node in node.value:
                key = str(key_node.value)
                line = key_node.start_mark.line + 1
                if not isinstance(key_node, yaml.ScalarNode):
                    raise RefusedTextError("a key is not a word.", line)
                outline.add_key((*path, key), line)
                content[key] = _plain(value_node, (*path, key), outline)
                span = outline.spans[*path, key]._replace(
                    key=key_node.start_mark.index, key_end=key_node.end_mark.index
                )
                outline.spans[*path, key] = span
            return content
        case yaml.SequenceNode():
            return [_plain(item, (*path, index), outline) for index, item in enumerate(node.value)]
        case _:
            refuse_halves(node.value, node.start_mark.line + 1)
            # SafeLoader would return the same text, but most values are texts, and creating it takes long.
            if node.tag == f"{_TYPES}str":
                return str(node.value)
            try:
                return yaml.SafeLoader("").construct_object(node)
            except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, ValueError) as error:
                # PyYAML looks at no value before it takes it for one of its type.
                kind = node.tag.removeprefix(_TYPES)
                raise RefusedTextError(f"not a value of the type {kind}.", node.start_mark.line + 1) from error
