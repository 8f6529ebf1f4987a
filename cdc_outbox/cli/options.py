"""Options that several commands share."""

import getpass
import os
import re
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from cdc_outbox.cli.context_option import ClusterOption, ContextValue, said_of_cluster
from cdc_outbox.cli.contexts import Context, Databases
from cdc_outbox.cli.output import ONE_WORD
from cdc_outbox.cli.times import Duration
from cdc_outbox.connect.cluster import Basic, Cluster
from cdc_outbox.connect.timings import Timings
from cdc_outbox.event import SequenceMode
from cdc_outbox.operations.actions import Operator
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


def json_option(note: str = "") -> Callable[[FC], FC]:
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
        help=f"Print text, or JSON for programs{note}.",
    )


dry_run_option = click.option("--dry-run", is_flag=True, help="Print what would be done, without changing anything.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
timeout_option = click.option(
    "--timeout",
    metavar="DURATION",
    type=Duration(is_open=True),
    default="60s",
    show_default=True,
    help="How long to wait until a connector and its tasks reach the expected state.",
)


def limit_option(default: int | None = None) -> Callable[[FC], FC]:
    """Return the option ``--limit``."""
    return click.option(
        "--limit",
        metavar="N",
        type=click.IntRange(min=1),
        default=default,
        show_default=default is not None,
        help="Maximum number of events.",
    )


new_file_option = click.option(
    "--file",
    "-f",
    "new_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this new file, not to stdout.",
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
            help="Kafka Connect's REST API, for example http://localhost:8083; separate several workers with "
            f"commas{note}.",
        )
        login_file = click.option(
            _LOGIN_FILE,
            cls=ClusterOption,
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="A file that contains Connect's login, user:password. If CDC_OUTBOX_CONNECT_URL sets the URL, "
            f"the variable {_LOGIN} can contain the login.",
        )
        patience = click.option(
            "--connect-patience",
            cls=ClusterOption,
            metavar="DURATION",
            type=Duration(),
            help="How long to retry a request that reaches no worker or fails temporarily. Default: 30s; for `status` "
            "and `doctor` 0s, if no worker or no broker answers.",
        )
        return url(login_file(patience(command)))

    return add


def stable_option(default: str) -> Callable[[FC], FC]:
    """Return the option ``--stable-for``, whose parameter has seconds.

    Args:
        default: Longer for a configuration that never ran, whose task may fail seconds after it began to run.
    """
    return click.option(
        "--stable-for",
        "stable_seconds",
        metavar="DURATION",
        type=Duration(),
        default=default,
        show_default=True,
        help="How long the connector and its tasks must run without interruption.",
    )


class _DebeziumType(click.ParamType[str]):
    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401 - click's
        """Return a line or a release of Debezium as it is written."""
        if not re.fullmatch(r"\d{1,3}\.\d{1,3}(\.\d+(\.\w+)?)?", value):
            self.fail(f"{value!r} is not a version such as 3.6, or in full 3.6.1.Final.", param, ctx)
        return str(value)


debezium_option = click.option(
    "--debezium",
    metavar="VERSION",
    type=_DebeziumType(),
    help="The version of Debezium that runs the connector, such as 3.6 or 3.6.1.Final. Default: the newest "
    "version that this command knows.",
)


by_option = click.option(
    "--by", metavar="WHO", help="The name to record for this action.  [default: the user at this machine]"
)


def note_option(*, required: bool) -> Callable[[FC], FC]:
    """Return the option ``--note``."""
    return click.option("--note", required=required, help="The reason, which is stored with the gap in the sequence.")


def acting(*, by: str | None = None, note: str | None = None) -> Operator:
    """Return who acts: the name that ``--by`` gives, or the user at this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        user = f"uid {os.getuid()}"
    return Operator(by or f"{user}@{socket.gethostname()}", note)


def aggregate_type_option(note: str) -> Callable[[FC], FC]:
    """Return the option ``--aggregate-type``: type → how it is numbered, ``None`` where nothing is said of that."""
    *others, last = SequenceMode
    return click.option(
        "--aggregate-type",
        "aggregates",
        multiple=True,
        callback=_aggregates,
        metavar="TYPE[:MODE]",
        help=f"An aggregate type of the outbox, and its sequence mode: {', '.join(others)} or {last}; repeatable. "
        f"{note}",
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
            raise click.BadParameter(f"{value!r} must be TYPE or TYPE:{modes}, each TYPE once")
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
    return f"Did you mean {str(found)!r}?" if found else "A spec is a file; `cdc-outbox new` creates one."
