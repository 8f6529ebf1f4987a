"""``cdc-outbox completion`` and ``cdc-outbox explain``."""

import click
from click.shell_completion import CompletionItem, get_completion_class

from cdc_outbox.cli.output import say
from cdc_outbox.debezium.explanations import explanations, page
from cdc_outbox.errors import ConfigError
from cdc_outbox.text_files.document import did_you_mean

PROGRAM = "cdc-outbox"
VARIABLE = "_CDC_OUTBOX_COMPLETE"
"""What the shell sets to be told what may follow, in a call of the command itself."""


@click.command(short_help="Print what makes a shell complete this command.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="The shell that reads the script.")
def completion(shell: str) -> None:
    """Print a script for a shell that completes commands, options, files and the names of contexts.

    \b
    Examples:
      cdc-outbox completion bash > ~/.local/share/bash-completion/completions/cdc-outbox
      cdc-outbox completion fish > ~/.config/fish/completions/cdc-outbox.fish
      echo 'eval "$(cdc-outbox completion zsh)"' >> ~/.zshrc
    """
    found = get_completion_class(shell)
    if found is None:  # pragma: no cover - click has had all three since 8.0
        raise click.UsageError(f"nothing is known of {shell}")
    say(found(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source(), script=True)


def _known_codes(_context: click.Context, _argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    known = explanations().items()
    return [CompletionItem(code, help=each.title) for code, each in known if code.startswith(incomplete.upper())]


@click.command(short_help="Tell what a finding's code means.")
@click.argument(
    "code", metavar="[CODE]", required=False, shell_complete=_known_codes, help="The code of a finding, such as CC302."
)
@click.option("--all", "everything", is_flag=True, help="All of them: every code, as a page of Markdown.")
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
