"""The ``cdc-outbox`` command: data to stdout, everything else to stderr.

Exit codes: 0 done, 1 failed, 2 wrong use or a wrong spec, 3 differences found, 75 try again later, 130 interrupted.
What runs until it is told to stop (``consume``, ``watch``, ``stack up`` once it is ready) is done when it is told so.
"""

import re
import sys
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from cdc_outbox.cli.groups import Group, name_variables
from cdc_outbox.cli.output import ONE_WORD, ExitCode, complain, exit_code_of, say
from cdc_outbox.errors import CdcOutboxError

if TYPE_CHECKING:
    from cdc_outbox.connect.timings import Timings

_COMMANDS = {
    "adopt": (
        "cdc_outbox.cli.lint:adopt_connector",
        "Write the spec of a connector that was configured by hand.",
    ),
    "baseline": ("cdc_outbox.cli.reset:baseline", "Begin in the middle of a history: accept what came before."),
    "completion": (
        "cdc_outbox.cli.completion:completion",
        "Print what makes a shell complete this command.",
    ),
    "consume": ("cdc_outbox.cli.consume:consume", "Run a consumer until SIGTERM or Ctrl-C."),
    "contexts": ("cdc_outbox.cli.contexts_list:contexts", "List the places that commands can be told to go to."),
    "contract": ("cdc_outbox.cli.spec_commands:contract", "Export what consumers must know of a pipeline."),
    "delete": ("cdc_outbox.cli.lifecycle:delete", "Delete a connector, and say what stays of it."),
    "deploy-connector": ("cdc_outbox.cli.deploy:deploy_connector", "Make a connector be what its spec says."),
    "doctor": ("cdc_outbox.cli.doctor:doctor", "Diagnose a pipeline, from the table to the topics."),
    "explain": ("cdc_outbox.cli.findings:explain", "Tell what a finding's code means."),
    "init": ("cdc_outbox.cli.init:init", "Create, upgrade or check the outbox's or the inbox's tables."),
    "lint": ("cdc_outbox.cli.lint:lint", "Find what is wrong with specs and connector configurations."),
    "new": ("cdc_outbox.cli.spec_commands:new", "Write a commented spec to begin with."),
    "offsets": ("cdc_outbox.cli.offsets:offsets", "Show or change where a connector goes on."),
    "parked": ("cdc_outbox.cli.parked:parked_events", "List, show, retry, skip or export parked events."),
    "partitions": ("cdc_outbox.cli.tables:partitions", "Create the outbox's next partitions."),
    "pause": ("cdc_outbox.cli.lifecycle:pause", "Let connectors read nothing for a while."),
    "plan": ("cdc_outbox.cli.deploy:plan", "Show what a deployment would change, and what that does to consumers."),
    "preflight": ("cdc_outbox.cli.doctor:preflight", "Find what is wrong with a pipeline's database."),
    "prune": ("cdc_outbox.cli.prune:prune", "Delete the events that are proven delivered."),
    "purge-inbox": ("cdc_outbox.cli.purge_inbox:purge_inbox", "Forget the ids that an inbox need not know any more."),
    "recover": (
        "cdc_outbox.cli.recover:recover",
        "Publish what a restored database still holds, and accept what was found.",
    ),
    "render": ("cdc_outbox.cli.spec_commands:render_connector", "Print the configuration that a spec becomes."),
    "replay": ("cdc_outbox.cli.replay:replay", "Give a consumer messages again."),
    "reset": ("cdc_outbox.cli.reset:reset", "Make a consumer forget events, so that their effects run again."),
    "restart": ("cdc_outbox.cli.lifecycle:restart", "Restart connectors and their tasks."),
    "resume": ("cdc_outbox.cli.lifecycle:resume", "Let connectors run again that were paused or stopped."),
    "simulate": ("cdc_outbox.cli.simulate:simulate", "Show what a row becomes on its way to Kafka."),
    "spec-schema": ("cdc_outbox.cli.spec_commands:print_schema", "Print the JSON Schema of specs, for editors."),
    "stack": ("cdc_outbox.cli.stack:stack", "Run PostgreSQL, Kafka and Connect on this machine."),
    "status": ("cdc_outbox.cli.status:status", "Show the state of connectors, tasks and slots."),
    "stop": ("cdc_outbox.cli.lifecycle:stop", "Let connectors give up their tasks and their slot."),
    "topics": ("cdc_outbox.cli.topics:topics", "Create the topics of pipelines."),
    "verify": ("cdc_outbox.cli.verify:verify", "Compare the outbox, its topics and a consumer."),
    "watch": ("cdc_outbox.cli.watch:watch", "Restart what fails, and give up loudly."),
}
"""Where each command lives; its module is imported when it is called, for most of them need little of the rest."""

_HEADINGS = {
    "Pipeline": (
        "new",
        "adopt",
        "lint",
        "render",
        "preflight",
        "plan",
        "deploy-connector",
        "contract",
        "topics",
        "status",
        "doctor",
        "verify",
        "watch",
        "pause",
        "resume",
        "stop",
        "restart",
        "delete",
        "offsets",
        "recover",
    ),
    "Tables": ("init", "partitions", "prune", "purge-inbox"),
    "Consumer": ("consume", "replay", "reset", "baseline"),
    "Parked events": ("parked",),
    "Local stack": ("stack",),
    "Tools": ("simulate", "explain", "spec-schema", "contexts", "completion"),
}
"""Each command under one heading of the help, in the order in which a pipeline needs them."""

_SPLIT_DSN = re.compile(r"Got unexpected extra arguments? \(.*\b(host|port|dbname|user|password)=", re.DOTALL)
"""What click says of a connection string without quotation marks, and of the password in it."""


class _LazyGroup(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        taking: click.Command = import_module("cdc_outbox.cli.context_option").take_contexts(command)
        return name_variables(taking)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # None of the commands is imported for it: a shell waits.
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=_COMMANDS[name][1])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, _COMMANDS))  # the same in every section, so that the texts stand in one column
        for heading, names in _HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), _COMMANDS[name][1]) for name in names])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="cdc-outbox", message="%(version)s")
def cli() -> None:
    """Transactional outbox on Debezium: tables, connectors, consumers, and a stack to try them on.

    Options can be given by the variables that their help shows. A DURATION is a number with its unit, such as 500ms,
    90s, 5m, 12h, 7d or 2w; a TIME is in ISO 8601, UTC if it has no offset, or a DURATION ago.

    What was asked for goes to stdout, all else to stderr; colour goes to terminals alone, and to none where NO_COLOR is
    set. Exit codes: 0 done, 1 failed, 2 wrong use or a wrong spec, 3 differences found, 75 try again later, 130
    interrupted (0 for what runs until Ctrl-C).

    \b
    Examples:
      cdc-outbox lint connectors/*.yaml
      cdc-outbox deploy-connector connectors/orders.yaml --context staging --dry-run
      cdc-outbox status
    """


def main(*, timings: "Timings | None" = None) -> None:
    """Run the command and exit with its code; an error of ours is a sentence and a hint, never a traceback.

    Args:
        timings: How long commands wait for Connect, in place of the defaults; what an option sets is the option's.
    """
    try:
        result = cli.main(standalone_mode=False, obj=timings)
    except CdcOutboxError as error:
        complain(error)
        sys.exit(exit_code_of(error))
    except click.ClickException as error:
        shown, told = StringIO(), error
        if isinstance(error, click.UsageError) and _SPLIT_DSN.match(error.message):
            told = click.UsageError(f"A connection string was taken apart. {ONE_WORD}", error.ctx)
        told.show(shown)
        say(shown.getvalue(), err=True, nl=False)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(ExitCode.INTERRUPTED)
    sys.exit(result if isinstance(result, int) else ExitCode.DONE)
