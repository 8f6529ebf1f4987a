"""``cdc-outbox lint`` and ``cdc-outbox adopt``."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from cdc_outbox.cli.connectors import not_found
from cdc_outbox.cli.files import STDIN, complete_file, files_of, read_text_of, write_new
from cdc_outbox.cli.findings import FORMATS, output_options, strict_option, tell
from cdc_outbox.cli.options import aggregate_type_option, connect_url_option, debezium_option, new_file_option
from cdc_outbox.cli.output import ExitCode, say
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.debezium.adopt import Adopted, adopt
from cdc_outbox.debezium.config_texts import find_configs, find_in_text
from cdc_outbox.debezium.lint import NEWEST, Config, Version, lint_all
from cdc_outbox.debezium.lint.fixes import fix
from cdc_outbox.errors import ConfigError
from cdc_outbox.event import SequenceMode
from cdc_outbox.finding import Finding
from cdc_outbox.redaction import visible
from cdc_outbox.text_files.document import Document

_UNREADABLE = {"CC002", "CC003", "SP001"}
"""Findings about files of which nothing was checked."""
_SUFFIXES = (".yaml", ".yml", ".json", ".properties")


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="SPEC|CONFIG...",
    shell_complete=complete_file,
    help="Specs and connector configurations, and folders of them; - is standard input.",
)
@output_options
@click.option(
    "--fix",
    "fixes",
    is_flag=True,
    help="Rewrite the files before the check: apply each fix that is the only one for its finding.",
)
@strict_option
@debezium_option
def lint(files: tuple[str, ...], *, output: str, fixes: bool, strict: bool, debezium: str | None) -> int:
    """Check specs and connector configurations.

    The check needs neither a database nor Kafka Connect. A file is a spec (YAML) or a connector configuration from any
    tool: flat JSON or properties; JSON with "config", as the REST API accepts and returns it, also in a list; a Strimzi
    KafkaConnector, also among other resources in several YAML documents or in a List. For a folder, all its files of
    these kinds are checked. For each captured table, the check follows a typical row through filters, predicates and
    transforms to its topic. Several files are also compared with each other, to find slots, topic prefixes and server
    ids that are used twice.

    Exit codes: 0 no errors (there may be warnings and notes), 1 errors, 2 a file cannot be read, or is neither a spec
    nor a connector configuration; with --strict also 3, warnings but no errors. Notes never change the exit code.

    --fix renames options that have a new name, removes options without effect, adds the event type to the message
    headers if messages do not contain it, and sets the plugin pgoutput if none is set. Each fix is reported on stderr;
    all other lines stay as they are. Slot, publication and message format are never changed. A connector that ran with
    another plugin needs another slot.

    \b
    Examples:
      cdc-outbox lint connectors/*.yaml
      cdc-outbox lint register-postgres.json --report sarif > findings.sarif
      cdc-outbox lint register-postgres.json --fix
      curl -s localhost:8083/connectors?expand=info | cdc-outbox lint -
    """
    version = line_of(debezium)
    configs: list[Config] = []
    findings: list[Finding] = []
    if fixes and STDIN in files:
        raise click.UsageError("--fix rewrites files; it cannot rewrite standard input")
    for name in _names(files):
        if fixes:
            _rewrite(name, version)
        found, refused = read_configs(name, version)
        configs += found
        findings += refused
    findings += lint_all(configs)
    code = tell(findings, output=output, strict=strict)
    return ExitCode.USAGE if any(finding.code in _UNREADABLE for finding in findings) else code


def line_of(release: str | None) -> Version:
    """Return the two numbers of a release's line, of the newest without one."""
    return NEWEST if release is None else tuple(map(int, release.split(".")[:2]))


def _names(files: Iterable[str]) -> Iterator[str]:
    """Yield the names of files, each once; a folder stands for what can be a configuration in it."""
    for name in dict.fromkeys(files):
        if name != STDIN and Path(name).is_dir():
            yield from map(str, files_of([Path(name)], suffixes=_SUFFIXES))
        else:
            yield name


def read_configs(name: str, version: Version, *, takes_specs: bool = True) -> tuple[list[Config], list[Finding]]:
    """Return the configurations in a file, or in standard input, and what keeps it from having any.

    Args:
        takes_specs: Whether a spec counts as the configuration that it renders to.

    Raises:
        ConfigError: It cannot be read.
    """
    text, called = read_text_of(name), "stdin" if name == STDIN else name
    if text is None:
        return [], [Document(name=called).error("CC002", (), "not UTF-8.", "Save it as UTF-8.")]
    return find_in_text(text, name=called, version=version, takes_specs=takes_specs)


def _rewrite(name: str, version: Version) -> None:
    """Fix findings with one right answer in a file, and report each fix."""
    text = read_text_of(name)
    if text is None:
        return
    rewritten, done = fix(text, name=name, version=version)
    if done:
        try:
            Path(name).write_bytes(rewritten.encode())
        except OSError as error:
            raise ConfigError(f"{name!r} cannot be written: {error.strerror}") from error
    for fixed in done:
        say(visible(str(fixed)), err=True)


@click.command("adopt")
@click.argument(
    "config",
    required=False,
    metavar="[CONFIG]",
    shell_complete=complete_file,
    help="A connector configuration; - is standard input.",
)
@click.option(
    "--connector",
    metavar="NAME",
    help="The connector to adopt, if CONFIG has several; without CONFIG, a connector in Kafka Connect.",
)
@connect_url_option(required=False, note="; needed without CONFIG")
@aggregate_type_option(
    "Default MODE: none, unless the table looks like one that `init` creates. Default TYPE: the connector's name."
)
@new_file_option
@output_options
@debezium_option
def adopt_connector(
    config: str | None,
    *,
    connector: str | None,
    cluster: Cluster | None,
    aggregates: dict[str, SequenceMode | None],
    new_file: Path | None,
    output: str,
    debezium: str | None,
) -> int:
    """Write the spec of an existing connector.

    CONFIG is a connector configuration: JSON as Connect's REST API accepts or returns it, a Strimzi KafkaConnector, or
    properties; - reads standard input. The spec renders to a configuration with the same meaning. Options for which
    specs have no key are written below `overrides`, unless they break a guarantee. Each option that cannot be carried
    over is reported on stderr, with its line, its effect on messages and a remedy. A secret in clear text is replaced
    with a reference, and is never printed.

    Exit codes: 0 messages stay the same, 3 something that changes messages could not be carried over (the spec is still
    written), 2 the connector does not publish an outbox.

    \b
    Examples:
      cdc-outbox adopt register-orders.json --aggregate-type customer --file connectors/orders.yaml
      cdc-outbox adopt --connector orders-outbox --connect-url http://localhost:8083
    """
    found, findings = _find(config, connector, cluster, line_of(debezium))
    if found is not None:
        name = "standard input" if config == STDIN else Path(config or "").name
        made_from = visible(name) if config else f"the connector {visible(found.name)} in Kafka Connect"
        try:
            adopted = adopt(found, aggregates, made_from=made_from)
        except ConfigError as error:
            if not error.findings:
                raise
            findings = list(error.findings)
        else:
            write_new(adopted.text, new_file)
            _print_findings(list(adopted.findings), output)
            return _verdict(adopted, prints=output == "text")
    _print_findings(findings, output)
    return ExitCode.USAGE


def _find(
    config: str | None, connector: str | None, cluster: Cluster | None, version: Version
) -> tuple[Config | None, list[Finding]]:
    """Return the configuration that is meant, or what is wrong with where it should be."""
    if config is None:
        if connector is None or cluster is None:
            raise click.UsageError("give a file, or a connector with --connector and --connect-url")
        return _in_connect(connector, cluster, version)
    if connector is None and config != STDIN and not Path(config).exists():
        hint = f"If this is the name of a connector in Kafka Connect, write --connector {visible(config)}."
        raise ConfigError(f"there is no file {visible(config)!r}", hint=hint)
    found, findings = read_configs(config, version, takes_specs=False)
    if findings or (len(found) == 1 and connector in {None, found[0].name}):
        return (None if findings else found[0]), findings
    named = [each for each in found if each.name == connector]
    if len(named) == 1:
        return named[0], []
    called = "stdin" if config == STDIN else config
    there = ", ".join(visible(each.name) or "an unnamed connector" for each in found)
    if connector is not None and not named:
        raise ConfigError(f"there is no connector {visible(connector)} in {called}, which has {there}")
    raise ConfigError(
        f"only one connector can be adopted at a time; {called} has {there}", hint="Choose one with --connector."
    )


def _in_connect(connector: str, cluster: Cluster, version: Version) -> tuple[Config | None, list[Finding]]:
    client = ConnectClient(cluster)
    options = client.find_config(connector)
    if options is None:
        raise not_found(connector, client.find_names())
    [config], findings = find_configs(Document(name="connect", content={"name": connector, **options}), version)
    return config, findings


def _print_findings(findings: list[Finding], output: str) -> None:
    text = FORMATS[output](findings)
    if text:
        say(text, err=True)


def _verdict(adopted: Adopted, *, prints: bool) -> ExitCode:
    if prints:
        same = "messages stay the same" if adopted.is_same else "some options could not be carried over"
        say(f"{visible(adopted.spec.name)}: {same}", err=True)
    return ExitCode.DONE if adopted.is_same else ExitCode.DIFFERENCES
