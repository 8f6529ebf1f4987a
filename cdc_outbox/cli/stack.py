"""``cdc-outbox stack``: the local stack, from the shell."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import click

from cdc_outbox.cli.groups import Group
from cdc_outbox.cli.options import json_option
from cdc_outbox.cli.output import document, say
from cdc_outbox.cli.running import interrupt, stop_at_signals
from cdc_outbox.errors import CdcOutboxError, StackError
from cdc_outbox.redaction import counted

try:
    from cdc_outbox.testing.folder import StackFolder
    from cdc_outbox.testing.process import ProcessRecord, Server, end
    from cdc_outbox.testing.stack import Stack, StackConfig
    from cdc_outbox.testing.worker import Worker
except ModuleNotFoundError as error:
    raise StackError(
        f"the local stack needs the package {error.name}", hint="Install it with `pip install 'cdc-outbox[testing]'`."
    ) from error

_WATCH_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_DOWN_SECONDS = 60.0
_RESTART_SECONDS = 90.0
"""Longer than a part may take to end and to be ready again."""


def _known_parts(context: click.Context, _argument: click.Parameter, incomplete: str) -> list[str]:
    """Return the parts of the stack that the line names so far."""
    try:
        parts = StackFolder(context.params.get("name") or "default").find_states()
    except CdcOutboxError:  # a shell that asks shows nothing else
        return []
    return [part for part in sorted(parts) if part.startswith(incomplete)]


_part_argument = click.argument(
    "part",
    metavar="[PART]",
    default="connect-1",
    shell_complete=_known_parts,
    help="A part that `stack status` shows, such as postgres or kafka. Default: connect-1.",
)
name_option = click.option("--name", default="default", show_default=True, help="The name of the stack.")


def _variables(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise click.BadParameter(f"{', '.join(missing)}: not set in the environment")
    return {name: os.environ[name] for name in names}


_env_option = click.option(
    "--env",
    "variables",
    metavar="NAME",
    multiple=True,
    callback=_variables,
    help="Make this environment variable available to connectors as ${env:NAME}; repeatable.",
)


@click.group(cls=Group)
def stack() -> None:
    """Run PostgreSQL, Kafka and Connect on this machine.

    The servers run as ordinary processes, without containers. Connect has Debezium's plugins.

    \b
    Example:
      cdc-outbox stack up --detach
      eval "$(cdc-outbox stack env)"
      cdc-outbox stack down
    """


@stack.command()
@name_option
@click.option("--detach", "-d", is_flag=True, help="Return when the stack is ready, and leave it running.")
@click.option("--workers", type=click.IntRange(min=0), default=1, show_default=True, help="Number of Connect workers.")
@click.option("--kafka/--no-kafka", default=True, show_default=True, help="Start a broker too, or PostgreSQL alone.")
@click.option(
    "--create-database",
    "databases",
    metavar="NAME",
    multiple=True,
    help="Create this empty database; `stack env` prints its addresses as NAME_DSN and NAME_URL. Repeatable; "
    "CDC_OUTBOX_DSN is the DSN of the first one.",
)
@_env_option
@click.option("--mariadb", is_flag=True, help="Add a MariaDB server, and Debezium's connector for it.")
@click.option("--system-postgres", is_flag=True, help="Use the installed PostgreSQL, not the embedded one.")
@json_option()
def up(
    *,
    name: str,
    detach: bool,
    workers: int,
    kafka: bool,
    databases: tuple[str, ...],
    variables: dict[str, str],
    mariadb: bool,
    system_postgres: bool,
    prints_json: bool,
) -> None:
    """Start a stack and run it until Ctrl-C.

    The stack uses free ports and its own folder. Connectors can use these variables as ${env:NAME}: POSTGRES_HOST and
    POSTGRES_PORT, with --mariadb also MARIADB_HOST and MARIADB_PORT, and the variables of --env. A MariaDB server also
    has the databases of --create-database; MARIADB_DSN is the DSN of the first one. Remains of a crashed stack are
    removed first. Kafka has no login: start no stack on a machine that you share with users whom you do not trust.

    \b
    Example:
      cdc-outbox stack up --create-database orders --create-database shipping
      ORDERS_CONNECTOR_PASSWORD=secret cdc-outbox stack up --env ORDERS_CONNECTOR_PASSWORD
    """
    config = StackConfig(
        name=name,
        workers=workers,
        kafka=kafka,
        databases=databases,
        system_postgres=system_postgres,
        mariadb=mariadb,
        connectors=["mariadb"] if mariadb else [],
        environment=variables,
    )
    StackFolder(name).refuse_held()
    stop_at_signals(interrupt, signal.SIGHUP)
    say(f"{name}: starting {_parts_of(config)}", err=True)
    if detach:
        _detach(config)
        if prints_json:
            say(_document(name, _parts_in(StackFolder(name))))
    else:
        _hold(config, prints_json=prints_json)


def _parts_of(config: StackConfig) -> str:
    databases = ["PostgreSQL", *(["MariaDB"] if config.mariadb else [])]
    if not config.kafka:
        return " and ".join(databases)
    workers = counted(config.workers, "Connect worker")
    return f"{', '.join(databases)}, Kafka and {workers}; the first start fetches their jars"


def _hold(config: StackConfig, *, prints_json: bool) -> None:
    started = time.monotonic()
    with Stack(config) as running:
        say(f"{config.name}: ready after {time.monotonic() - started:.1f} s; Ctrl-C ends it", err=True)
        if prints_json:
            say(_document(config.name, _parts_in(running.folder)))
        else:
            say(_exports(running.environment()), script=True)
        # From here on Ctrl-C is the way to end it, and no failure.
        with contextlib.suppress(KeyboardInterrupt):
            _watch(running)


@stack.command()
@name_option
@json_option()
def status(*, name: str, prints_json: bool) -> None:
    """Show the state and process id of each part of a stack.

    Exits with 1 if a part does not run.

    \b
    Examples:
      cdc-outbox stack status
      cdc-outbox stack status --output json
    """
    folder = _find(name)
    parts = _parts_in(folder)
    if prints_json:
        say(_document(name, parts))
    for part in () if prints_json else parts:
        say(f"{part['name']:<12} {part['state']:<12} {part['pid'] or ''}".rstrip())
    if {part["state"] for part in parts} != {"running"}:
        raise StackError(f"some parts of {name} do not run", hint=f"Try `cdc-outbox stack logs --name {name} PART`.")


@stack.command()
@name_option
@json_option()
def env(*, name: str, prints_json: bool) -> None:
    """Print a stack's variables for other commands, for eval.

    \b
    Example:
      eval "$(cdc-outbox stack env)"
    """
    environment = _find(name).find_environment()
    if environment is None:
        raise StackError(f"the stack {name} is still starting", hint="Wait until `cdc-outbox stack up` says ready.")
    if prints_json:
        say(document("StackEnvironment", {"name": name, "variables": environment}))
    else:
        say(_exports(environment), script=True)


@stack.command()
@_part_argument
@name_option
@click.option("--lines", type=click.IntRange(min=1), default=50, show_default=True, help="Lines from the end.")
def logs(part: str, *, name: str, lines: int) -> None:
    """Print the end of a part's log.

    \b
    Example:
      cdc-outbox stack logs kafka --lines 200
    """
    text = _find(name).log(part).read_text(errors="replace")
    say("\n".join(text.splitlines()[-lines:]))


@stack.command()
@_part_argument
@name_option
@_env_option
@json_option()
def restart(part: str, *, name: str, variables: dict[str, str], prints_json: bool) -> None:
    """Restart a running or crashed part with its ports and files.

    \b
    Examples:
      cdc-outbox stack restart kafka
      ORDERS_CONNECTOR_PASSWORD=secret cdc-outbox stack restart connect-1 --env ORDERS_CONNECTOR_PASSWORD
    """
    if variables and not part.startswith("connect-"):
        raise click.UsageError(f"--env is for Connect workers; {part} is not one")
    folder = _find(name)
    logged = folder.log(part).stat().st_size
    folder.ask_restart(part, variables)
    if not folder.await_restart(part, seconds=_RESTART_SECONDS):
        raise StackError(
            f"the process that runs the stack {name} did not restart {part}",
            hint="Only a stack of `cdc-outbox stack up` can restart parts, not one that a program started itself.",
        )
    state = folder.find_states().get(part, "not running")
    if state != "running":
        reason = folder.find_fatal(part, after=logged) or state
        raise StackError(f"{part} did not restart: {reason}", hint=f"Try `cdc-outbox stack logs --name {name} {part}`.")
    say(f"{part}: {state}", err=True)
    if prints_json:
        say(_document(name, _parts_in(folder)))


@stack.command()
@name_option
@json_option()
def down(*, name: str, prints_json: bool) -> None:
    """Stop a stack and delete its folder.

    Exits with 0 if no stack of this name runs.

    \b
    Example:
      cdc-outbox stack down
    """
    folder = StackFolder(name)
    owner = folder.owner
    if folder.is_held and owner is not None:
        end([owner], seconds=_DOWN_SECONDS)
        folder.clear_left_over()
        say(f"{name}: down", err=True)
    elif folder.clear_left_over():
        say(f"{name}: removed the remains of a crashed stack", err=True)
    else:
        say(f"{name}: was not running", err=True)
        if folder.others:
            say(f"hint: {folder.others}", err=True)
    if prints_json:
        say(_document(name, _parts_in(folder)))


def _find(name: str) -> StackFolder:
    folder = StackFolder(name)
    folder.refuse_unless_held()
    return folder


def _parts_in(folder: StackFolder) -> list[dict[str, Any]]:
    return [
        {
            "name": part,
            "state": record.state(),
            "pid": record.pid if record.find() else None,
            "log": str(folder.log(part)),
        }
        for part, record in sorted(folder.find_records().items())
    ]


def _document(name: str, parts: list[dict[str, Any]]) -> str:
    return document("Stack", {"name": name, "parts": parts})


def _exports(environment: dict[str, str]) -> str:
    """Return what a shell evaluates.

    Raises:
        StackError: A name is more than a name to a shell.
    """
    for name in environment:
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
            raise StackError(f"{name!r} is not a valid variable name")
    return "\n".join(f"export {key}={shlex.quote(value)}" for key, value in environment.items())


def _watch(running: Stack) -> None:
    """Wait for Ctrl-C, say when a part ends or comes back, and start again what is asked for."""
    known = {part.name: part.state() for part in running.parts}
    while True:
        time.sleep(_WATCH_SECONDS)
        for part in running.parts:
            state = part.state()
            if state != known[part.name]:
                say(f"{part.name}: {state}", err=True)
                known[part.name] = state
            variables = running.folder.asked_restart(part.name)
            if variables is not None:
                _restart(part, running.folder, variables)


def _restart(part: Server, folder: StackFolder, variables: dict[str, str]) -> None:
    try:
        if variables and isinstance(part, Worker):
            part.add_variables(variables)
        part.restart()
    except StackError as error:  # of one part; the others continue
        say(f"{part.name}: {error}", err=True)
    finally:
        folder.answer_restart(part.name)


def _detach(config: StackConfig) -> None:
    """Start a process that holds the stack, and return when it is ready."""
    name, folder = config.name, StackFolder(config.name)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(  # noqa: S603 - this very command
            [sys.executable, "-m", "cdc_outbox", "stack", "up", *_arguments(config)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        child = ProcessRecord.of(process.pid)
        try:
            # By the child: what a crashed stack left behind has an environment too.
            while not (folder.owner == child and folder.find_environment()):
                if process.poll() is not None:
                    said.seek(0)
                    say(said.read().decode(errors="replace").rstrip(), err=True)
                    sys.exit(process.returncode)
                time.sleep(_LOOK_SECONDS)
        except KeyboardInterrupt:
            # In a session of its own it does not hear the terminal's Ctrl-C.
            end([child], seconds=_DOWN_SECONDS)
            raise
    say(f"{name}: ready; `cdc-outbox stack down --name {name}` ends it", err=True)


def _arguments(config: StackConfig) -> list[str]:
    """Return the options by which ``up`` makes the same stack, and holds it."""
    return [
        f"--name={config.name}",
        f"--workers={config.workers}",
        "--kafka" if config.kafka else "--no-kafka",
        *(f"--create-database={name}" for name in config.databases),
        *(f"--env={name}" for name in config.environment),
        *(["--mariadb"] if config.mariadb else []),
        *(["--system-postgres"] if config.system_postgres else []),
    ]
