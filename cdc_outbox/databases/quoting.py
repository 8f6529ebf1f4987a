"""Names and texts as they stand in SQL, where a statement takes no parameter for them."""

import hashlib

from cdc_outbox.errors import ConfigError
from cdc_outbox.redaction import has_controls

MAX_IDENTIFIER_BYTES = 63
"""PostgreSQL cuts a longer name off without a word, and two names may become one."""


def quote(identifier: str, mark: str = '"') -> str:
    """Return the identifier in quotes, ready to stand in a statement.

    Raises:
        ConfigError: It is empty, holds a control character, or is longer than 63 bytes in UTF-8.
    """
    refuse_controls(identifier)
    if not identifier:
        raise ConfigError(f"{identifier!r} cannot be the name of a table, schema or column")
    if len(identifier.encode()) > MAX_IDENTIFIER_BYTES:
        raise ConfigError(f"the name {identifier!r} is longer than {MAX_IDENTIFIER_BYTES} bytes")
    return mark + identifier.replace(mark, mark * 2) + mark


def refuse_controls(name: str) -> None:
    """Refuse a name that a terminal or a program that reads a script line by line could obey.

    Raises:
        ConfigError: It holds a control character, a line separator, or what turns the direction of writing.
    """
    if has_controls(name):
        raise ConfigError(f"the name {name!a} contains a control character", hint="Use visible characters only.")


def literal(text: str) -> str:
    """Return the text as an SQL string constant, for statements that take no parameters (DDL)."""
    if "\0" in text:
        raise ConfigError("SQL cannot contain a NUL")
    return "'" + text.replace("'", "''") + "'"


def derived_name(name: str, suffix: str) -> str:
    """Return ``name_suffix``, shortened by a hash where it would pass 63 bytes."""
    whole = f"{name}_{suffix}"
    if len(whole.encode()) <= MAX_IDENTIFIER_BYTES:
        return whole
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    kept = name.encode()[: MAX_IDENTIFIER_BYTES - len(suffix) - len(digest) - 2].decode(errors="ignore")
    return f"{kept}_{digest}_{suffix}"
