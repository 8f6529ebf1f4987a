"""``cdc-outbox new``."""

import shlex
from pathlib import Path

import click

from cdc_outbox.cli.files import write_new
from cdc_outbox.cli.options import aggregate_option, new_file_option
from cdc_outbox.cli.output import say
from cdc_outbox.database import DatabaseKind
from cdc_outbox.document import did_you_mean
from cdc_outbox.event import SequenceMode
from cdc_outbox.skeleton import next_commands, skeleton
from cdc_outbox.spec import parse_spec


class _Kind(click.Choice[str]):
    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return click's message, with the nearest kind."""
        offer = did_you_mean(str(value), list(self.choices))
        return f"{super().get_invalid_choice_message(value, ctx)} {offer}".rstrip()


@click.command("new", short_help="Write a commented spec to begin with.")
@click.argument("name")
@click.option(
    "--database",
    "kind",
    type=_Kind([kind.value for kind in DatabaseKind]),
    default=DatabaseKind.POSTGRESQL.value,
    show_default=True,
    help="The kind of the outbox's database.",
)
@aggregate_option(
    "An aggregate type that is written, numbered gapless (default), increasing or none; repeatable. "
    "Without it there is one, called NAME."
)
@new_file_option
def new(name: str, *, kind: str, aggregates: dict[str, SequenceMode | None], new_file: Path | None) -> None:
    """Write the spec of the pipeline NAME, with a comment for every key, to standard output or a file.

    \b
    Examples:
      cdc-outbox new orders --file connectors/orders.yaml
      cdc-outbox new orders --database postgresql --aggregate customer --file connectors/orders.yaml
      cdc-outbox new metrics --database mariadb --aggregate reading:none
    """
    text = skeleton(
        name,
        DatabaseKind(kind),
        {key: mode or SequenceMode.GAPLESS for key, mode in (aggregates or {name: None}).items()},
    )
    parse_spec(text, name=str(new_file or "stdout"))  # a name may be none
    write_new(text, new_file)
    if new_file is not None:
        say("next:", err=True)
        for command in next_commands(DatabaseKind(kind)):
            name, _, option = command.partition(" ")
            say(f"  cdc-outbox {' '.join(filter(None, (name, shlex.quote(str(new_file)), option)))}", err=True)
