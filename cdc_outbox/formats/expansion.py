"""What Debezium can expand: JSON objects of which it guesses a schema, each on its own, that holds everything in them.

``table.expand.json.payload`` takes the first element of a list for all of them, and Java's numbers for every number.
What does not fit stays a text, fails the task or loses a value; so writers refuse it. Nothing here imitates the
expansion: the rule is narrower than what Debezium takes, so that what arrives says the same.
"""

import json
from collections.abc import Hashable
from decimal import Decimal
from typing import Any

from cdc_outbox.errors import EventError
from cdc_outbox.text_files.document import JsonValue

_INT32, _INT64 = 2**31, 2**63
_NULL = "null"
_MAX_DIGITS = 1_000
"""Of one number; Jackson reads no longer ones."""


def check(text: str) -> str:
    """Return JSON text as the expansion takes it, without blanks around it.

    Raises:
        EventError: It is no object, or something in it has no shape. The message never repeats the payload.
    """
    stripped = text.strip(" \t\r\n")
    if not stripped.startswith("{"):
        raise _refusal("is not an object")
    _shape(json.loads(stripped, parse_int=_whole, parse_float=_fraction))
    return stripped


def _shape(value: JsonValue) -> Hashable:
    """Return what determines Connect's schema of a value."""
    match value:
        case None:
            return _NULL
        case bool() | str():
            return type(value).__name__
        case int():
            return 32 if -_INT32 <= value < _INT32 else 64
        case float():
            return "double"
        case list():
            return ("list", _shape_of_all(value))
        case dict() if "" in value:
            raise _refusal("has a key without a name")
    return frozenset((key, _shape(held)) for key, held in value.items())


def _shape_of_all(elements: list[Any]) -> Hashable:
    """Return the one shape of a list's elements: of objects, all or none, and any of their fields may be null."""
    if not elements:
        return "str"  # the type that Debezium uses for it
    if not all(isinstance(element, dict) for element in elements):
        shapes = {_shape(element) for element in elements}
        return _only(shapes if any(isinstance(element, dict) for element in elements) else _but_null(shapes))
    keys = elements[0].keys()
    if any(element.keys() != keys for element in elements):
        raise _refusal("has objects with different keys in one list")
    if "" in keys:
        raise _refusal("has a key without a name")
    return frozenset((key, _only(_but_null({_shape(element[key]) for element in elements}))) for key in keys)


def _but_null(shapes: set[Hashable]) -> set[Hashable]:
    return shapes - {_NULL} or {_NULL}


def _only(shapes: set[Hashable]) -> Hashable:
    if len(shapes) > 1:
        raise _refusal("has values of different types in one list")
    return next(iter(shapes))


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS or not -_INT64 <= (number := int(digits)) < _INT64:
        raise _refusal("has an integer of more than 64 bits")
    return number


def _fraction(digits: str) -> float:
    number = float(digits)
    if len(digits) > _MAX_DIGITS or Decimal(digits) != Decimal(repr(number)):
        raise _refusal("has a number that a double cannot hold")
    return number


def _refusal(what: str) -> EventError:
    return EventError(
        f"the payload {what}, which Debezium's expansion cannot encode",
        hint="Use null for missing values and strings for long numbers; payload_type json accepts any JSON.",
    )
