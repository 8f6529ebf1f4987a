"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cdc_outbox.errors import ConfigError
from cdc_outbox.event import SequenceMode
from cdc_outbox.spec import Spec, parse_spec

FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)

dsn_option = click.option(
    "--dsn",
    envvar="CDC_OUTBOX_DSN",
    show_envvar=True,
    required=True,
    help="The database, as libpq takes it: postgresql://user:password@host/name or host=… dbname=….",
)


def connect_url_option(*, required: bool, note: str = "") -> Callable[[FC], FC]:
    """Return the option ``--connect-url``.

    Args:
        note: What its help says beside.
    """
    return click.option(
        "--connect-url",
        envvar="CDC_OUTBOX_CONNECT_URL",
        show_envvar=True,
        required=required,
        help=f"Kafka Connect's REST API, for example http://localhost:8083{note}.",
    )


def aggregate_option(help_text: str) -> Callable[[FC], FC]:
    """Return the option ``--aggregate``: type → how it is numbered, ``None`` where nothing is said of that."""
    return click.option(
        "--aggregate", "aggregates", multiple=True, callback=_aggregates, metavar="TYPE[:MODE]", help=help_text
    )


def _aggregates(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, SequenceMode | None]:
    found: dict[str, SequenceMode | None] = {}
    for value in values:
        aggregate_type, colon, mode = value.rpartition(":")
        if not colon:
            aggregate_type, mode = value, ""
        if not aggregate_type or (colon and mode not in set(SequenceMode)) or aggregate_type in found:
            modes = "|".join(SequenceMode)
            raise click.BadParameter(f"{value!r} is not TYPE or TYPE:{modes}, each TYPE once")
        found[aggregate_type] = SequenceMode(mode) if colon else None
    return found


def read_spec(path: Path) -> Spec:
    """Read a spec from a file.

    Raises:
        ConfigError: It cannot be read, or is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}") from error
    return parse_spec(text, name=str(path))
