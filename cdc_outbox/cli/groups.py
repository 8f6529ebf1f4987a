"""Commands that have commands, and the variable that each option is too."""

from collections.abc import Mapping

import click

from cdc_outbox.text_files.document import did_you_mean


class Group(click.Group):
    """A command whose commands are named where another word stands, such as an argument of one of them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names.

        Raises:
            click.UsageError: It names none.
        """
        known = self.list_commands(ctx)
        if not ctx.resilient_parsing and args[0] not in known and not args[0].startswith("-"):
            there = f"There are {', '.join(known)}." if len(known) > 1 else f"There is {known[0]}."
            raise click.UsageError(f"No such command {args[0]!r}. {did_you_mean(args[0], known) or there}", ctx)
        return super().resolve_command(ctx, args)


PREFIX = "CDC_OUTBOX"

_CONFIRMS = frozenset(
    {
        "accept",
        "accept-shorter-horizon",
        "all",
        "force",
        "new-incarnation",
        "purge",
        "replace",
        "revoke",
        "run-effects-again",
        "without-topics",
        "yes",
    }
)
"""Options that confirm or widen what one call destroys: a variable would confirm it for every later command as well."""
_DIFFERS = frozenset({"aggregate", "connector", "database", "from", "limit", "offsets", "set", "to", "topic", "type"})
"""Options that mean one thing in one command and another thing in the next, so that no value is right for both."""
_DIFFERS_IN: Mapping[tuple[str, ...], frozenset[str]] = {
    ("init",): frozenset({"consumer", "migrator", "pruner", "writer"}),  # roles; elsewhere a consumer is a group
}


def name_variables(command: click.Command, *path: str) -> click.Command:
    """Give a command's options, and those of the commands inside it, their variables, and show them in the help.

    Args:
        path: What is typed to get there, such as ``parked list``.
    """
    for option in command.params:
        if isinstance(option, click.Option):
            variables = variables_of(option, *path)
            option.envvar = variables[0] if len(variables) == 1 else variables or None
            option.show_envvar = bool(variables)
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            name_variables(each, *path, name)
    return command


def variables_of(option: click.Option, *path: str) -> list[str]:
    """Return the variables of an option: one for each of its long names, the longest first, which says most.

    None for an option that confirms, or that means something else in another command.
    """
    names = sorted({name[2:] for name in option.opts if name.startswith("--")}, key=len, reverse=True)
    without = _CONFIRMS | _DIFFERS | _DIFFERS_IN.get(path, frozenset())
    return [f"{PREFIX}_{name.replace('-', '_').upper()}" for name in names if name not in without]
