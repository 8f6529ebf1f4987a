"""The ``cdc-outbox`` command: data to stdout, everything else to stderr.

Exit codes: 0 done, 1 failed, 2 wrong use or a wrong spec, 3 differences found, 75 try again later, 130 interrupted.
Commands that run until a signal (``consume``, ``relay``, ``watch``, ``stack up`` once it is ready) exit with 0 then.
"""

import re
import sys
from importlib import import_module
from pkgutil import get_data
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from cdc_outbox.cli.groups import Group, name_variables
from cdc_outbox.cli.output import ONE_WORD, ExitCode, complain, exit_code_of, paint, say
from cdc_outbox.errors import CdcOutboxError

if TYPE_CHECKING:
    from cdc_outbox.connect.timings import Timings

_COMMANDS = {
    "Pipeline": {
        "new": "spec_commands:new",
        "adopt": "lint:adopt_connector",
        "lint": "lint:lint",
        "render": "spec_commands:render_connector",
        "preflight": "doctor:preflight",
        "plan": "deploy:plan",
        "deploy-connector": "deploy:deploy_connector",
        "contract": "spec_commands:contract",
        "topics": "topics:topics",
        "status": "status:status",
        "doctor": "doctor:doctor",
        "verify": "verify:verify",
        "watch": "watch:watch",
        "pause": "lifecycle:pause",
        "resume": "lifecycle:resume",
        "stop": "lifecycle:stop",
        "restart": "lifecycle:restart",
        "delete": "lifecycle:delete",
        "offsets": "offsets:offsets",
        "recover": "recover:recover",
    },
    "Relay": {
        "relay": "relay:relay",
    },
    "Tables": {
        "init": "init:init",
        "partitions": "tables:partitions",
        "prune": "prune:prune",
        "purge-inbox": "purge_inbox:purge_inbox",
    },
    "Consumer": {
        "consume": "consume:consume",
        "replay": "replay:replay",
        "reset": "reset:reset",
        "baseline": "reset:baseline",
    },
    "Parked events": {
        "parked": "parked:parked_events",
    },
    "Monitoring": {
        "monitor": "monitor:monitor",
    },
    "Local stack": {
        "stack": "stack:stack",
    },
    "Tools": {
        "simulate": "simulate:simulate",
        "explain": "findings:explain",
        "spec-schema": "spec_commands:print_schema",
        "contexts": "contexts_list:contexts",
        "completion": "completion:completion",
    },
}
"""Each command's module and function, under its heading in the help, in the order in which a pipeline needs them.

A module is imported when its command is called: most commands need little of the rest.
"""
_LOCATIONS = {name: location for commands in _COMMANDS.values() for name, location in commands.items()}

_SPLIT_DSN = re.compile(r"Got unexpected extra arguments? \(.*\b(host|port|dbname|user|password)=", re.DOTALL)
"""Click's message about a connection string without quotation marks; it contains the password."""


class _LazyGroup(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(_LOCATIONS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _LOCATIONS:
            return None
        module, _, function = _LOCATIONS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), function)
        taking: click.Command = import_module("cdc_outbox.cli.context_option").take_contexts(command)
        return name_variables(taking)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=_short_help(name))
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, _LOCATIONS))  # the same in every section, so that the texts stand in one column
        for heading, names in _COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), _short_help(name)) for name in names])


def _short_help(name: str) -> str:
    """Return the first line of a command's docstring.

    The module is read and not imported, because imports take a second, and a shell waits for its completions.
    """
    module, _, function = _LOCATIONS[name].partition(":")
    source = (get_data(__name__, f"{module}.py") or b"").decode()
    found = re.search(rf'^def {function}\(.*?"""(.*)', source, re.MULTILINE | re.DOTALL)
    return "" if found is None else found[1].partition("\n")[0].removesuffix('"""')


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="cdc-outbox", message="%(version)s")
def cli() -> None:
    """Manage outboxes, Debezium connectors and consumers.

    The help of an option names its environment variable, if it has one. A DURATION is a number with a unit: 500ms, 90s,
    5m, 12h, 7d or 2w. A TIME is an ISO 8601 time, in UTC if it has no offset, or a DURATION before now.

    Results go to stdout, all other output to stderr. Only terminals get colour; NO_COLOR turns it off.

    Exit codes: 0 done, 1 failed, 2 wrong usage or an invalid spec, 3 differences found, 75 try again later, 130
    interrupted (0 for commands that run until Ctrl-C).

    \b
    Examples:
      cdc-outbox lint connectors/*.yaml
      cdc-outbox deploy-connector connectors/orders.yaml --context staging --dry-run
      cdc-outbox status
    """


def _complain_of_usage(error: click.ClickException) -> None:
    """Print click's error in the style of :func:`complain`, below the usage."""
    message = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        say(message, err=True)
        return
    if isinstance(error, click.UsageError):
        if _SPLIT_DSN.match(error.message):
            message = f"a connection string was split into several arguments. {ONE_WORD}"
        if error.ctx is not None:
            say(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n", err=True)
    first = message[:1].lower() if message[1:2].islower() else message[:1]
    rest = message[1:] if ". " in message else message[1:].removesuffix(".")
    say(f"{paint('error:', 'red')} {first}{rest}", err=True)


def main(*, timings: "Timings | None" = None) -> None:
    """Run the command and exit with its code; errors of the package are printed with a hint and without a traceback.

    Args:
        timings: How long commands wait for Connect; options take precedence. Default: ``Timings()``.
    """
    try:
        result = cli.main(standalone_mode=False, obj=timings)
    except CdcOutboxError as error:
        complain(error)
        sys.exit(exit_code_of(error))
    except click.ClickException as error:
        _complain_of_usage(error)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(ExitCode.INTERRUPTED)
    sys.exit(result if isinstance(result, int) else ExitCode.DONE)
