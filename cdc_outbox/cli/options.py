"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cdc_outbox.errors import ConfigError
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
