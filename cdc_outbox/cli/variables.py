"""Every option is a variable too: where none was given a name of its own, it is the command's and the option's."""

import click

PREFIX = "CDC_OUTBOX"


def name_variables(command: click.Command, *path: str) -> click.Command:
    """Give a command's options, and those of the commands inside it, their variables, and show them in the help.

    Args:
        path: What is typed to get there, such as ``dead-letters list``.
    """
    for option in command.params:
        if isinstance(option, click.Option):
            option.envvar = option.envvar or variable_of(option, *path)
            option.show_envvar = True
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            name_variables(each, *path, name)
    return command


def variable_of(option: click.Option, *path: str) -> str:
    """Return the variable of an option that has no name of its own, such as ``CDC_OUTBOX_LINT_STRICT``."""
    spelled = next((name for name in option.opts if name.startswith("--")), option.opts[0]).lstrip("-")
    return "_".join([PREFIX, *path, spelled]).replace("-", "_").upper()
