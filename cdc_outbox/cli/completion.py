"""``cdc-outbox completion``."""

import click
from click.shell_completion import get_completion_class

from cdc_outbox.cli.output import say

PROGRAM = "cdc-outbox"
VARIABLE = "_CDC_OUTBOX_COMPLETE"
"""The variable that the shell sets to get completions from a call of the command itself."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="The shell that reads the script.")
def completion(shell: str) -> None:
    """Print a completion script for a shell.

    It completes commands, options, files and the names of contexts.

    \b
    Examples:
      cdc-outbox completion bash > ~/.local/share/bash-completion/completions/cdc-outbox
      cdc-outbox completion fish > ~/.config/fish/completions/cdc-outbox.fish
      echo 'eval "$(cdc-outbox completion zsh)"' >> ~/.zshrc
    """
    found = get_completion_class(shell)
    if found is None:  # pragma: no cover - click has had all three since 8.0
        raise click.UsageError(f"unknown shell {shell}")
    say(found(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source(), script=True)
