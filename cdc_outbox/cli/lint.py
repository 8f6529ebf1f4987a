"""``cdc-outbox lint``."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from cdc_outbox.cli.files import STDIN, complete_file, read_text_of
from cdc_outbox.cli.findings import output_option, strict_option, tell
from cdc_outbox.cli.output import say
from cdc_outbox.cli.specs import files_of
from cdc_outbox.connect.lint import NEWEST, Config, Version, find_in_text, lint_all
from cdc_outbox.connect.lint.fixes import fix
from cdc_outbox.document import Document
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import Finding
from cdc_outbox.safe_text import visible

_SUFFIXES = (".yaml", ".yml", ".json", ".properties")


def _version(_context: click.Context, _option: click.Parameter, value: str) -> Version:
    parts = value.split(".")
    if not 2 <= len(parts) <= 4 or not all(part.isdecimal() and len(part) < 4 for part in parts[:2]):
        raise click.BadParameter("a version looks like 3.6")
    return tuple(int(part) for part in parts[:2])


debezium_option = click.option(
    "--debezium",
    "version",
    default=".".join(map(str, NEWEST)),
    show_default=True,
    callback=_version,
    help="The version of Debezium that runs the connectors.",
)


@click.command(short_help="Find what is wrong with specs and connector configurations.")
@click.argument("files", nargs=-1, required=True, shell_complete=complete_file)
@output_option
@click.option("--fix", "mends", is_flag=True, help="First rewrite what has one right answer, in the files themselves.")
@strict_option
@debezium_option
def lint(files: tuple[str, ...], *, output: str, mends: bool, strict: bool, version: Version) -> int:
    """Find what is wrong with FILES, without a database and without Kafka Connect; - reads standard input.

    A file is a spec of ours (YAML), or what Connect runs today, written by any tool: a flat configuration as JSON or
    properties, one with "config" as the REST API takes and gives it, several in a list, a KafkaConnector of Strimzi,
    also among other resources in several documents of YAML or in a List.
    A folder stands for its files of those kinds. A typical row of each captured table is followed through filters,
    transforms and predicates to its topic. Several files are also compared with each other: same slot, same
    prefix, same server id.

    Exit codes: 0 no errors (there may be warnings and notes), 1 errors, 2 a file cannot be opened; with --strict
    also 3, warnings and no errors. Notes never change it.

    --fix renames what has another name by now, leaves out what does nothing, places an event type that is not read,
    and sets the plugin pgoutput where none is named. It says so on stderr, keeps the rest as it is written, and leaves
    alone slot, publication and the form of messages. A connector that ran with another plugin needs another slot.

    \b
    Examples:
      cdc-outbox lint connectors/*.yaml
      cdc-outbox lint register-postgres.json --output sarif > findings.sarif
      cdc-outbox lint register-postgres.json --fix
      curl -s localhost:8083/connectors?expand=info | cdc-outbox lint -
    """
    configs: list[Config] = []
    findings: list[Finding] = []
    if mends and STDIN in files:
        raise click.UsageError("--fix rewrites files; standard input is none")
    for name in _names(files):
        if mends:
            _mend(name, version)
        found, refused = read_configs(name, version)
        configs += found
        findings += refused
    findings += lint_all(configs)
    return tell(findings, output=output, strict=strict)


def _names(files: Iterable[str]) -> Iterator[str]:
    """Yield the names of files, each once; a folder stands for what can be a configuration in it."""
    for name in dict.fromkeys(files):
        if name != STDIN and Path(name).is_dir():
            yield from map(str, files_of([Path(name)], suffixes=_SUFFIXES))
        else:
            yield name


def read_configs(name: str, version: Version) -> tuple[list[Config], list[Finding]]:
    """Return the configurations in a file, or in standard input, and what keeps it from having any.

    Raises:
        ConfigError: It cannot be read.
    """
    text, called = read_text_of(name), "stdin" if name == STDIN else name
    if text is None:
        return [], [Document(name=called).error("CC002", (), "not UTF-8.", "Save it as UTF-8.")]
    return find_in_text(text, name=called, version=version)


def _mend(name: str, version: Version) -> None:
    """Rewrite a file, if there is anything to mend, and say what."""
    text = read_text_of(name)
    if text is None:
        return
    mended, done = fix(text, name=name, version=version)
    if done:
        try:
            Path(name).write_bytes(mended.encode())
        except OSError as error:
            raise ConfigError(f"{name!r} cannot be written: {error.strerror}") from error
    for fixed in done:
        say(visible(str(fixed)), err=True)
