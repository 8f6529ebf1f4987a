"""``cdc-outbox adopt``."""

from pathlib import Path

import click

from cdc_outbox.cli.exits import ExitCode
from cdc_outbox.cli.files import STDIN, complete_file, write_new
from cdc_outbox.cli.findings import FORMATS, output_option
from cdc_outbox.cli.lint import debezium_option, read_configs
from cdc_outbox.cli.options import aggregate_option, connect_url_option, new_file_option
from cdc_outbox.cli.output import say
from cdc_outbox.connect.adopt import Adopted, adopt
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.lint import Config, Version, find_configs
from cdc_outbox.document import Document
from cdc_outbox.errors import ConfigError, ConnectorNotFoundError
from cdc_outbox.event import SequenceMode
from cdc_outbox.finding import Finding
from cdc_outbox.safe_text import visible


@click.command("adopt", short_help="Write the spec of a connector that was configured by hand.")
@click.argument("config", required=False, shell_complete=complete_file)
@click.option(
    "--connector", metavar="NAME", help="The connector of this name: in CONFIG, or in Kafka Connect without it."
)
@connect_url_option(required=False, note="; for a connector that is there")
@aggregate_option(
    "An aggregate type that is written; repeatable. Numbered gapless, increasing or none; by default none, unless the "
    "table looks like one of `init`. Without it the spec has one, called like the connector."
)
@new_file_option
@output_option
@debezium_option
def adopt_connector(
    config: str | None,
    *,
    connector: str | None,
    cluster: Cluster | None,
    aggregates: dict[str, SequenceMode | None],
    new_file: Path | None,
    output: str,
    version: Version,
) -> int:
    """Write the spec that becomes the configuration in CONFIG by meaning, or that of a connector that is there.

    CONFIG is JSON in any form of Connect's REST API, a KafkaConnector of Strimzi, or properties; - reads standard
    input. What a spec has no word for stands below overrides, where that breaks no promise. What could not be carried
    over is told on stderr, with its line, what it means for the messages, and what to do. A secret that stands in clear
    text becomes a reference, and is printed nowhere.

    Exit codes: 0 messages stay as they are, 3 something that is in them could not be carried over (the spec is written
    all the same), 2 it is no outbox's configuration.

    \b
    Examples:
      cdc-outbox adopt register-orders.json --aggregate customer --file connectors/orders.yaml
      cdc-outbox adopt --connector orders-outbox --connect-url http://localhost:8083
    """
    found, findings = _find(config, connector, cluster, version)
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
            _tell(list(adopted.findings), output)
            return _verdict(adopted, told=output == "text")
    _tell(findings, output)
    return ExitCode.USAGE


def _find(
    config: str | None, connector: str | None, cluster: Cluster | None, version: Version
) -> tuple[Config | None, list[Finding]]:
    """Return the configuration that is meant, or what is wrong with where it should be."""
    if config is None:
        if connector is None or cluster is None:
            raise click.UsageError("name a file, or a connector by --connector and --connect-url")
        return _in_connect(connector, cluster, version)
    if connector is None and config != STDIN and not Path(config).exists():
        hint = f"A connector that is in Kafka Connect is named so: --connector {visible(config)}"
        raise ConfigError(f"there is no file {visible(config)!r}", hint=hint)
    found, findings = read_configs(config, version)
    if findings or (len(found) == 1 and connector in {None, found[0].name}):
        return (None if findings else found[0]), findings
    named = [each for each in found if each.name == connector]
    if len(named) == 1:
        return named[0], []
    called = "stdin" if config == STDIN else config
    there = ", ".join(visible(each.name) or "one without a name" for each in found)
    if connector is not None and not named:
        raise ConfigError(f"there is no connector {visible(connector)} in {called}, which has {there}")
    raise ConfigError(
        f"one connector can be adopted at a time, and {called} has {there}", hint="Choose by --connector."
    )


def _in_connect(connector: str, cluster: Cluster, version: Version) -> tuple[Config | None, list[Finding]]:
    client = ConnectClient(cluster)
    options = client.find_config(connector)
    if options is None:
        there = ", ".join(client.find_names()) or "none"
        raise ConnectorNotFoundError(f"there is no connector {connector!r}; there are: {there}")
    [config], findings = find_configs(Document(name="connect", content={"name": connector, **options}), version)
    return config, findings


def _tell(findings: list[Finding], output: str) -> None:
    text = FORMATS[output](findings)
    if text:
        say(text, err=True)


def _verdict(adopted: Adopted, *, told: bool) -> ExitCode:
    if told:
        same = "messages stay as they are" if adopted.is_same else "not all could be carried over"
        say(f"{visible(adopted.spec.name)}: {same}", err=True)
    return ExitCode.DONE if adopted.is_same else ExitCode.DIFFERENCES
