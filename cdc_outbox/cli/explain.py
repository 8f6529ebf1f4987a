"""``cdc-outbox explain``."""

import click
from click.shell_completion import CompletionItem

from cdc_outbox.cli.output import say
from cdc_outbox.document import did_you_mean
from cdc_outbox.errors import ConfigError
from cdc_outbox.explanations import explanations, page


def _known_codes(_context: click.Context, _argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    known = explanations().items()
    return [CompletionItem(code, help=each.title) for code, each in known if code.startswith(incomplete.upper())]


@click.command(short_help="Tell what a finding's code means.")
@click.argument("code", required=False, shell_complete=_known_codes)
@click.option("--all", "everything", is_flag=True, help="Print every code, as a page of Markdown.")
def explain(code: str | None, *, everything: bool) -> None:
    """Tell what happens where CODE is found, what was observed, and what to do.

    \b
    Example:
      cdc-outbox explain CC302
    """
    if everything == (code is not None):
        raise click.UsageError("say which CODE, or --all")
    if code is None:
        say(page(), nl=False)
        return
    known = explanations()
    if code.upper() not in known:
        hint = did_you_mean(code.upper(), list(known)) or "`cdc-outbox explain --all` prints every code."
        raise ConfigError(f"there is no code {code!r}", field="CODE", hint=hint)
    say(str(known[code.upper()]))
