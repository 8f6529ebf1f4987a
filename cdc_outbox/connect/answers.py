"""The shapes of Connect's answers: what reads one need not ask whether it is one."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Shape = Callable[[Any], bool]


def _text(value: object) -> bool:
    return isinstance(value, str)


def _number(value: object) -> bool:
    return isinstance(value, int)


def _object(value: object) -> bool:
    return isinstance(value, dict)


def _or_null(shape: Shape) -> Shape:
    return lambda value: value is None or shape(value)


def _list_of(shape: Shape) -> Shape:
    return lambda value: isinstance(value, list) and all(map(shape, value))


def _object_of(shape: Shape) -> Shape:
    return lambda value: isinstance(value, dict) and all(map(shape, value.values()))


def _members(*, needed: Mapping[str, Shape], others: Mapping[str, Shape] | None = None) -> Shape:
    """Return the shape of an object with some members, and perhaps with others; what else it has is not looked at."""
    known = {**needed, **(others or {})}
    return lambda value: (
        isinstance(value, dict)
        and value.keys() >= needed.keys()
        and all(shape(value[name]) for name, shape in known.items() if name in value)
    )


_SAID = {"trace": _or_null(_text), "version": _or_null(_text), "worker_id": _or_null(_text)}
_CONNECTOR = _members(needed={"state": _text}, others=_SAID)
_TASK = _members(needed={"id": _number, "state": _text}, others=_SAID)
_STATUS = _members(needed={"connector": _CONNECTOR, "tasks": _list_of(_TASK)})
_CONFIG = _object_of(_text)
_INFO = _members(needed={"config": _CONFIG})
_EXPANDED = _object_of(_members(needed={}, others={"info": _INFO, "status": _STATUS}))
_OFFSET = _members(needed={"partition": _object, "offset": _or_null(_object)})
_OPTION = _members(
    needed={"value": _or_null(_members(needed={"name": _text, "errors": _list_of(_text)}))},
    others={"definition": _members(needed={"name": _text}, others={"type": _text})},
)
_SHAPES: Mapping[str, Shape] = {
    r"GET /connectors": _list_of(_text),
    r"GET /connectors\?expand=.*": _EXPANDED,
    r"GET /connectors/[^/]+/config": _CONFIG,
    r"GET /connectors/[^/]+/status": _STATUS,
    r"GET /connectors/[^/]+/offsets": _members(needed={"offsets": _list_of(_OFFSET)}),
    r"GET /connectors/[^/]+/topics": _object_of(_members(needed={"topics": _list_of(_text)})),
    r"PUT /connector-plugins/[^/]+/config/validate": _members(needed={"configs": _list_of(_OPTION)}),
}


def is_answer(method: str, path: str, answer: object) -> bool:
    """Return whether a value has the shape of Connect's answer to a request; parts that are not read may have any."""
    request = f"{method} {path}"
    return all(shape(answer) for known, shape in _SHAPES.items() if re.fullmatch(known, request))
