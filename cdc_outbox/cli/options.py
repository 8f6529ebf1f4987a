"""Options that several commands share, and spans of time as they take them."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from cdc_outbox.cli.context_option import ClusterOption, ContextValue, said_of_cluster
from cdc_outbox.cli.contexts import Context, Databases
from cdc_outbox.cli.output import ONE_WORD
from cdc_outbox.connect.cluster import Basic, Cluster
from cdc_outbox.connect.timings import Timings
from cdc_outbox.event import SequenceMode
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.text_files.document import read_text_file

FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)
_LOGIN, _LOGIN_FILE = "CDC_OUTBOX_CONNECT_LOGIN", "--connect-login-file"


class _ClusterType(click.ParamType[Cluster]):
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Cluster:  # noqa: ANN401 - click's
        """Return the cluster of some URLs, or that of a context."""
        cluster = value if isinstance(value, Cluster) else Cluster(urls=tuple(value.replace(",", " ").split()))
        if ctx is None:
            return cluster
        timings, login = ctx.find_object(Timings), _login(ctx, param)
        patience, _ = said_of_cluster(ctx, "connect_patience")
        if timings is not None:
            cluster = replace(cluster, timings=timings)
        if login is not None:
            cluster = replace(cluster, login=login)
        return cluster if patience is None else replace(cluster, patience_seconds=patience)


def _login(context: click.Context, url: click.Parameter | None) -> Basic | None:
    """Return the login that is no context's: one of the environment goes to no other URL than the environment's."""
    takes_variables = url is not None and context.get_parameter_source(url.name or "") is ParameterSource.ENVIRONMENT
    file, source = said_of_cluster(context, "connect_login_file")
    if file is not None and (takes_variables or source is ParameterSource.COMMANDLINE):
        return Basic.parse(read_text_file(file, field=_LOGIN_FILE).strip(), field=_LOGIN_FILE)
    text = os.environ.get(_LOGIN) if takes_variables else None
    return Basic.parse(text, field=_LOGIN) if text else None


class DatabasesType(click.ParamType[Databases]):
    """A DSN, or those of a context."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Databases:  # noqa: ANN401, ARG002 - click's
        """Return the databases of a context, or one for every pipeline."""
        return value if isinstance(value, Databases) else Databases(default=value)


def dsns_option(*, required: bool, note: str = "") -> Callable[[FC], FC]:
    """Return the option ``--dsn`` of a command about pipelines: a context may have one for each."""
    return click.option(
        "--dsn",
        "databases",
        cls=ContextValue,
        entry=Context.databases,
        address="database",
        type=DatabasesType(),
        required=required,
        help=f"The outbox's database, as this machine reaches it{note}.",
    )


def json_option(json: str = "one JSON document") -> Callable[[FC], FC]:
    """Return the option ``--output`` of a command that prints text or JSON, as its parameter ``prints_json``.

    With JSON, what the command says beside the document goes to stderr.
    """
    return click.option(
        "--output",
        "prints_json",
        type=click.Choice(["text", "json"]),
        callback=lambda _context, _option, value: value == "json",
        default="text",
        show_default=True,
        help=f"Print text, or {json}.",
    )


new_file_option = click.option(
    "--file",
    "-f",
    "new_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file that does not exist yet, not stdout.",
)


def connect_url_option(*, required: bool, note: str = "") -> Callable[[FC], FC]:
    """Return the options that lead to a :class:`Cluster`.

    Args:
        note: What the help of ``--connect-url`` says beside.
    """

    def add(command: FC) -> FC:
        url = click.option(
            "--connect-url",
            "cluster",
            cls=ContextValue,
            entry=Context.cluster,
            address="connect",
            type=_ClusterType(),
            required=required,
            help=f"Kafka Connect's REST API, for example http://localhost:8083; several workers with commas{note}.",
        )
        login_file = click.option(
            _LOGIN_FILE,
            cls=ClusterOption,
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="A file that holds Connect's login, user:password. For the URL of CDC_OUTBOX_CONNECT_URL the variable "
            f"{_LOGIN} may hold it.",
        )
        patience = click.option(
            "--connect-patience",
            cls=ClusterOption,
            metavar="SECONDS",
            type=click.FloatRange(min=0),
            help="How long a request is repeated that no worker takes, or that fails for now. Default: 30; 0 for "
            "`status` and `doctor` where no worker or no broker answers.",
        )
        return url(login_file(patience(command)))

    return add


def stable_seconds_option(default: float) -> Callable[[FC], FC]:
    """Return the option ``--stable-seconds``.

    Args:
        default: Longer for a configuration that never ran, whose task may fail seconds after it began to run.
    """
    return click.option(
        "--stable-seconds",
        type=click.FloatRange(min=0),
        default=default,
        show_default=True,
        help="How long connector and tasks must run on before that counts.",
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


def is_named(parameter: str) -> bool:
    """Whether a parameter of the command that runs stands on the command line, and not in the environment only."""
    return click.get_current_context().get_parameter_source(parameter) is click.core.ParameterSource.COMMANDLINE


def read_spec(path: Path) -> Spec:
    """Read a spec from a file.

    Raises:
        ConfigError: It cannot be read, or is wrong.
    """
    return parse_spec(read_text_file(path, hint=_spec_called(path)), name=str(path))


def _spec_called(path: Path) -> str:
    """Return a sentence for those who wrote a pipeline's name, as other commands take it, or a part of a DSN."""
    if "=" in path.name and not path.exists():
        return ONE_WORD
    if path.suffix or path.exists():
        return ""
    near = (folder / f"{path.name}.yaml" for folder in (path.parent, path.parent / "connectors"))
    found = next(filter(Path.is_file, near), None)
    return f"Did you mean {str(found)!r}?" if found else "A spec is a file, which `cdc-outbox new` writes."


_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> float:
    """Read a number with its unit."""
    parts = _SPAN.fullmatch(text)
    if parts is None:
        raise click.BadParameter(f"{text!r} is not a number with one of the units s, m, h, d and w, such as 7d.")
    return float(parts[1]) * _SECONDS[parts[2]]


def moment(text: str) -> datetime:
    """Read a time in ISO 8601, where one without an offset is UTC, or a span such as ``1h``, which is so long ago."""
    try:
        if _SPAN.fullmatch(text):
            return datetime.now(UTC) - timedelta(seconds=seconds(text))
        read = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no time such as 2026-03-01T14:30:00Z, or 1h for an hour ago.") from None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
