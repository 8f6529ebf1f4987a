"""Options that several commands share."""

from pathlib import Path

import click

from cdc_outbox.errors import ConfigError
from cdc_outbox.spec import Spec, parse_spec

dsn_option = click.option(
    "--dsn",
    envvar="CDC_OUTBOX_DSN",
    show_envvar=True,
    required=True,
    help="The database, as libpq takes it: postgresql://user:password@host/name or host=… dbname=….",
)

connect_url_option = click.option(
    "--connect-url",
    envvar="CDC_OUTBOX_CONNECT_URL",
    show_envvar=True,
    required=True,
    help="Kafka Connect's REST API, for example http://localhost:8083.",
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
