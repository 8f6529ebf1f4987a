"""The payload's two forms: what Python code works with, and the text that lies in the table and in the topic."""

import json
from typing import Any

from cdc_outbox.errors import EventError

_MAX_DEPTH_HINT = "Store a reference to what is deep or large, and fetch it separately."


def encode(payload: Any) -> str:  # noqa: ANN401 - whatever JSON can express
    """Return the payload as JSON text; a ``str`` is JSON text already and is returned as it is.

    Raises:
        EventError: It is not JSON: a type that JSON does not know, NaN or infinity, text that does not parse, a
            lone surrogate.
    """
    if payload is None:
        raise EventError("the payload is None, which would be read as a tombstone", hint="Write {} or 'null'.")
    try:
        if isinstance(payload, str):
            json.loads(payload, parse_constant=_refuse_constant)
            text = payload
        else:
            text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except RecursionError as error:
        raise EventError("the payload is nested too deeply", hint=_MAX_DEPTH_HINT) from error
    except (TypeError, ValueError) as error:
        raise EventError(f"the payload is not JSON: {_reason(error)}") from error
    return text


def decode(value: bytes) -> Any:  # noqa: ANN401 - whatever JSON can express
    """Return what the JSON text says.

    Raises:
        ValueError: It is not JSON in UTF-8; the message names the position, never the content.
    """
    try:
        return json.loads(value)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        raise ValueError(_reason(error)) from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _reason(error: TypeError | ValueError) -> str:
    """Say what is wrong without repeating the payload, which may be private."""
    match error:
        case json.JSONDecodeError():
            return f"{error.msg} at line {error.lineno} column {error.colno}"
        case UnicodeError():
            return "not UTF-8" if isinstance(error, UnicodeDecodeError) else "it contains a lone surrogate"
        case _:
            return str(error)
