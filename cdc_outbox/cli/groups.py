"""Commands that have commands, and the variable that each option is too."""

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
            there = f"Commands: {', '.join(known)}."
            raise click.UsageError(f"No such command {args[0]!r}. {did_you_mean(args[0], known) or there}", ctx)
        return super().resolve_command(ctx, args)


PREFIX = "CDC_OUTBOX"

_CONFIRMS = frozenset(
    {
        "accept",
        "accept-shorter-horizon",
        "all",
        "earlier-events",
        "force",
        "keep",
        "new-incarnation",
        "offsets-only",
        "purge",
        "replace",
        "revoke",
        "run-effects-again",
        "to-offset",
        "without-topics",
        "yes",
    }
)
"""Options that confirm or decide what one call destroys: a variable would do so for every later command as well."""


def name_variables(command: click.Command) -> click.Command:
    """Give a command's options, and those of the commands inside it, their variables, and show them in the help."""
    for option in command.params:
        if isinstance(option, click.Option):
            variables = variables_of(option)
            option.envvar = variables[0] if len(variables) == 1 else variables or None
            option.show_envvar = bool(variables)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            name_variables(each)
    return command


def variables_of(option: click.Option) -> list[str]:
    """Return the variables of an option: one for each of its long names, the longest first, which says most.

    None for an option that confirms.
    """
    names = sorted({name[2:] for name in option.opts if name.startswith("--")}, key=len, reverse=True)
    return [f"{PREFIX}_{name.replace('-', '_').upper()}" for name in names if name not in _CONFIRMS]
