"""``cdc-outbox --help``: every command once, under a heading, and none of them imported for it."""

import re
import subprocess
import sys

import click

from cdc_outbox.cli import cli

HEADINGS = ["Pipeline", "Relay", "Tables", "Consumer", "Parked events", "Monitoring", "Local stack", "Tools"]


def _sections() -> dict[str, list[str]]:
    """Return the commands under each heading, as the help shows them."""
    shown = cli.get_help(click.Context(cli, **cli.context_settings, info_name="cdc-outbox", terminal_width=110))
    sections: dict[str, list[str]] = {}
    for line in shown.splitlines():
        if heading := re.fullmatch(r"(\w[\w ]*):", line):
            sections[heading[1]] = []
        elif sections and (command := re.match(r"  ([a-z][\w-]*)  ", line)):
            [*sections.values()][-1].append(command[1])
    return {heading: commands for heading, commands in sections.items() if heading != "Options"}


def test_every_command_stands_once_under_a_heading() -> None:
    sections = _sections()
    assert [each for each in sections if each in HEADINGS] == HEADINGS
    shown = [command for heading in HEADINGS for command in sections[heading]]
    assert sorted(shown) == cli.list_commands(click.Context(cli, **cli.context_settings))


def test_the_texts_stand_in_one_column() -> None:
    shown = cli.get_help(click.Context(cli, **cli.context_settings, info_name="cdc-outbox", terminal_width=110))
    commands = [line for line in shown.partition("\nPipeline:\n")[2].splitlines() if line.startswith("  ")]
    columns = {len(match[0]) for line in commands if (match := re.match(r"  [a-z][\w-]*  +", line))}
    assert len(columns) == 1


def test_the_help_imports_no_command() -> None:
    code = "import sys; from cdc_outbox.cli import main; main()"
    traced = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {code}"
    done = subprocess.run([sys.executable, "-c", traced, "--help"], capture_output=True, text=True, check=True)
    assert "deploy-connector" in done.stdout
    assert not {"cdc_outbox.cli.deploy", "cdc_outbox.cli.lint", "requests", "yaml"} & {*done.stderr.split()}
