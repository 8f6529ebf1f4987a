"""Commands that have commands."""

import click

from cdc_outbox.document import did_you_mean


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
