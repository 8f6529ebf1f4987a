"""The payload's two forms: what Python code works with, and the text that lies in the table and in the topic.

Beside what JSON knows itself, these have one form each, also inside dicts and lists:

===========================================  ==========================================================
tuple                                        array
UUID, Decimal                                string; a number would lose a Decimal's digits in readers
datetime with a time zone, date              string, ISO 8601
Enum                                         its value
dataclass, attrs class                       object of its fields
pydantic model                               ``model_dump(mode="json")``: aliases and serializers count
msgspec Struct                               ``msgspec.to_builtins``: renaming and tags count
===========================================  ==========================================================

Everything else is refused. A set has no order, a naive datetime no moment, nested bytes no agreed text.
"""

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final, cast, final
from uuid import UUID

from cdc_outbox.errors import EventError
from cdc_outbox.redaction import shortened, visible_controls
from cdc_outbox.text_files.document import JsonValue

_NO_STRING_KEY = "the payload is not JSON: a key is not a string"
_LONE_SURROGATE = "the payload contains a lone surrogate"
_MAX_DEPTH_HINT = "Store a reference to deep or large data, and fetch the data separately."


@final
class Tombstone:
    """The type of :data:`TOMBSTONE`, of which there is one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TOMBSTONE"

    def __reduce__(self) -> str:
        return "TOMBSTONE"  # copies and pickles stay the one that `is` finds


TOMBSTONE: Final = Tombstone()
"""The payload of an event that becomes a message without a value, so that compaction forgets its key."""


def encode(payload: Any, *, max_depth: int = 100) -> str | bytes | None:  # noqa: ANN401 - models of any library
    """Return the payload as the outbox stores it: JSON text that every reader understands alike.

    A ``str`` is JSON text already; it is checked and returned verbatim. Bytes are returned as they are, for a
    converter that passes them through, and ``TOMBSTONE`` becomes ``None``. The module's docstring lists the rest.

    Args:
        max_depth: How many arrays and objects may stand in each other. 100 is more than people write, and less than
            any reader's limit known to us.

    Raises:
        EventError: It is not JSON, or not everywhere: a type without a JSON form, a key that is no string or that
            an object has twice, NaN or infinity, a lone surrogate or a NUL, raw or as an escape, an integer longer
            than Python reads, or it is too deep. The message never repeats the payload.
    """
    if payload is TOMBSTONE:
        return None
    if payload is None:
        raise EventError(
            "the payload is None, which is neither a tombstone nor JSON's null",
            hint="Write TOMBSTONE for a message without a value, 'null' for JSON's null.",
        )
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    is_text = isinstance(payload, str) and not isinstance(payload, Enum)
    try:
        text: str = payload if is_text else "".join(_in_chunks(payload, 0))
        if "\\u" in text or not text.isascii():
            _check_characters(text)
        _check_structure(_parsed(text) if is_text else payload, max_depth)
    except (EventError, TypeError, ValueError, RecursionError) as error:
        refusal = error if isinstance(error, EventError) else _refusal(error)
        message, hint = str(refusal), refusal.hint
        del refusal
    else:
        return text
    # Outside the handler: the causes hold the whole text, and an error must not carry it.
    path = "" if is_text or hint is _MAX_DEPTH_HINT else _path_of_refused(payload)
    raise EventError(f"{message}, at {path}" if path else message, hint=hint)


def _path_of_refused(value: Any) -> str:  # noqa: ANN401 - models of any library
    """Return where in a payload the first value is that cannot be encoded, such as ``items[0].price``."""
    path = ""
    while True:
        try:
            while not isinstance(value, _JSON):
                value = _plain(value)
        except Exception:  # noqa: BLE001 - of a model
            return _shown(path)
        named: Iterable[tuple[object, Any]] = value.items() if isinstance(value, dict) else ()
        if isinstance(value, (list, tuple)):
            named = enumerate(value)
        inner = next(((key, each) for key, each in named if _is_refused(each)), None)
        if inner is None:
            return _shown(path)
        path, value = path + (f".{inner[0]}" if isinstance(value, dict) else f"[{inner[0]}]"), inner[1]


def _is_refused(value: object) -> bool:
    try:
        _check_characters("".join(_in_chunks(value, 0)))
        _check_structure(value, sys.maxsize)
    except (EventError, TypeError, ValueError, RecursionError):
        return True
    return False


def _shown(path: str) -> str:
    return shortened(visible_controls(path.removeprefix(".")), 200)


_scan = vars(json.JSONDecoder())["scan_once"]
"""Reads JSON at a position of a text: what json.loads calls in the end."""


def decode(value: bytes) -> JsonValue:
    """Return what the JSON text says.

    Raises:
        ValueError: It is not JSON in UTF-8; the message names the position, never the content.
    """
    try:
        text = value.decode()
        found, end = _scan(text, 0)
        if not text[end:].strip(" \t\n\r"):
            return cast("JsonValue", found)
    except (ValueError, StopIteration, RecursionError):
        pass
    # There is space before it, it is in another encoding, or it is not JSON.
    try:
        # What json would find out with more ado: JSON starts with ASCII, and a zero behind that is UTF-16 or UTF-32.
        is_utf8 = len(value) > 1 and 0 < value[0] < 128 and value[1]
        return json.loads(value.decode("utf-8", "surrogatepass") if is_utf8 else value)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(_position(error)) from error
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error


def _plain(value: object) -> JsonValue:
    """Return something nearer to JSON, one step; the encoder asks again for what is inside."""
    match value:
        case Enum():
            return value.value
        case UUID():
            return str(value)
        case datetime() if value.utcoffset() is None:
            raise EventError("a datetime in the payload has no time zone", hint="Use datetime.now(UTC).")
        case date():
            return value.isoformat()
        case Decimal() if value.is_finite():
            return str(value)
        case Decimal():
            raise EventError("a Decimal in the payload is NaN or infinite")
        case _:
            return _fields(value)


def _fields(value: Any) -> JsonValue:  # noqa: ANN401 - models of any library
    """Return what a model holds. Known by their marks, so that no library is needed that the caller does not use."""
    kind = type(value)
    try:
        if hasattr(kind, "model_dump_json"):
            # Not model_dump_json itself: it and msgspec.json.encode write null for NaN without a word.
            return value.model_dump(mode="json")
        if hasattr(kind, "__struct_fields__"):
            return sys.modules["msgspec"].to_builtins(value)
        if hasattr(kind, "__attrs_attrs__"):
            return {field.name: getattr(value, field.name) for field in kind.__attrs_attrs__}
        if dataclasses.is_dataclass(kind):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    except RecursionError:
        raise
    except Exception as error:  # models run code of their own, which may raise anything
        raise EventError(f"{kind.__qualname__} cannot be encoded as JSON: {type(error).__name__}") from error
    raise EventError(
        f"the payload is not JSON: {kind.__qualname__} has no JSON form",
        hint="Pass a dict, a list, a text, a number, or a model that converts to them.",
    )


_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,  # a cycle ends as a RecursionError; watching for it costs every payload a tenth
    separators=(",", ":"),
    default=_plain,
)


def _encoding_in_chunks(encoder: json.JSONEncoder) -> Callable[[object, int], Iterable[str]]:
    """Return the function that an encoder's ``encode`` creates for each value and calls with the value and 0."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # a Python that has none
        return lambda value, _: (encoder.encode(value),)
    separators = encoder.key_separator, encoder.item_separator
    options = encoder.sort_keys, encoder.skipkeys, encoder.allow_nan
    chunks: Callable[[object, int], Iterable[str]] = make(
        None, encoder.default, json.encoder.encode_basestring, None, *separators, *options
    )
    return chunks


_in_chunks = _encoding_in_chunks(_ENCODER)

_JSON = (dict, list, tuple, str, int, float, type(None))
"""What json knows itself."""

_FLAT = frozenset({str, int, float, bool, type(None)})
"""What ends a branch; asking for the exact type is the quickest question, and a subclass merely takes a turn more."""


def _check_structure(value: object, max_depth: int, depth: int = 0) -> None:
    """Refuse too many levels, and keys that json would make strings: ``{1: …, "1": …}`` would have one twice."""
    held: Iterable[object]
    if isinstance(value, dict):
        "".join(value)  # a TypeError for a key that is no string, without a loop
        held = value.values()
    elif isinstance(value, (list, tuple)):
        held = value
    elif isinstance(value, _JSON):
        return
    else:
        _check_structure(_plain(value), max_depth, depth)
        return
    if depth == max_depth:
        raise EventError(f"the payload is nested too deeply, the limit is {max_depth}", hint=_MAX_DEPTH_HINT)
    for inner in held:
        if type(inner) not in _FLAT:
            _check_structure(inner, max_depth, depth + 1)


def _check_characters(text: str) -> None:
    """Refuse characters that JSON's grammar allows and readers do not.

    Each question is first asked in a way that costs next to nothing and is nearly always enough.
    """
    if not text.isascii():
        text.encode()
    if "\\u0000" in text or "\\ud" in text or "\\uD" in text:
        for escape in _ESCAPE.finditer(text):
            if escape["nul"]:
                raise EventError("the payload contains a NUL, which PostgreSQL cannot store")
            if escape["surrogate"]:
                raise EventError(_LONE_SURROGATE)


_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<nul>u0000)|(?P<surrogate>u[dD][89a-fA-F]..)|.)", re.DOTALL
)
"""One escape, or the two that make one character; from left to right, so that an escaped backslash hides nothing."""


def _parsed(text: str) -> object:
    if not text.strip():
        raise EventError("the payload is an empty string, which is not JSON", hint="Did you mean TOMBSTONE or '\"\"'?")
    if text.startswith("\ufeff"):
        raise EventError("the payload starts with a byte order mark, which is not JSON")
    content: object = _DECODER.decode(text)
    return content


def _refuse_constant(name: str) -> None:
    raise EventError(f"the payload is not JSON: {name} is not a JSON number")


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        repeated = next(key for place, (key, _) in enumerate(pairs) if key in dict(pairs[:place]))
        raise EventError(f"an object in the payload has a key twice, {_shown(repeated)!r}")
    return content


_DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated_keys, parse_constant=_refuse_constant)


def _refusal(error: TypeError | ValueError | RecursionError) -> EventError:
    """Return the error without repeating the payload, which may be private, or a message that might."""
    match error:
        case json.JSONDecodeError():
            return EventError(
                f"the payload is a str that is not JSON text: {_position(error)}",
                hint="Pass the value itself, such as a dict, or JSON text; `json.dumps` encodes a plain text.",
            )
        case UnicodeEncodeError():
            return EventError(_LONE_SURROGATE)
        case RecursionError():
            return EventError("the payload is nested too deeply, or contains itself", hint=_MAX_DEPTH_HINT)
        case ValueError():
            return EventError("the payload is not JSON: a number is NaN, infinite or has too many digits for Python")
        case _:
            return EventError(_NO_STRING_KEY)


def _position(error: json.JSONDecodeError) -> str:
    return f"{error.msg} at line {error.lineno} column {error.colno}"
