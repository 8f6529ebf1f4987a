"""``cdc-outbox topics``."""

import logging
from collections.abc import Iterator
from pathlib import Path

import click

from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.exits import ExitCode
from cdc_outbox.cli.output import paint, say
from cdc_outbox.cli.specs import read_specs, specs_argument
from cdc_outbox.connect.topics import topics_of
from cdc_outbox.kafka import Topics
from cdc_outbox.operate.topics import Difference, differences
from cdc_outbox.safe_text import counted, visible
from cdc_outbox.spec import Spec

_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())  # what librdkafka says is in the error


@click.group(short_help="Create the topics of pipelines.")
def topics() -> None:
    """Create the topics that pipelines write to, where the brokers or Connect shall not.

    \b
    Example:
      cdc-outbox topics create connectors/
    """


@topics.command(short_help="Create the topics that are missing.")
@specs_argument
@broker_options()
@click.option("--dry-run", is_flag=True, help="Only say which would be created.")
def create(paths: tuple[Path, ...], *, bootstrap_servers: str, kafka_settings: Path | None, dry_run: bool) -> ExitCode:
    """Create the topics of SPECs that do not exist, with the partitions, replicas and retention of the spec.

    They are those of the events, of the heartbeats and, where the database needs one, of the schema's history. A topic
    that exists is never changed: what differs is said. More partitions than a topic has are refused, for they break the
    order of an aggregate's events unless the pipeline is drained first.

    Exit codes: 0 every topic is as its spec says, 1 the spec wants more partitions than a topic has, 2 a wrong spec, 3
    something else differs, or with --dry-run a topic is missing, 75 try again later.

    \b
    Examples:
      cdc-outbox topics create connectors/orders.yaml
      cdc-outbox topics create connectors/ --context production --dry-run
    """
    specs = read_specs(paths)
    brokers = Topics(broker_settings(bootstrap_servers, kafka_settings, group="cdc-outbox topics"), _LOG)
    created, found = 0, list[Difference]()
    for spec in specs.values():
        created += _create(spec, brokers, dry_run=dry_run)
        found += _differences(spec, brokers)
    for each in found:
        say(f"{paint('error:', 'red') if each.is_refused else 'differs:'} {visible(str(each))}")
    refused = sum(each.is_refused for each in found)
    if found or created:
        made = f"{counted(created, 'topic')} {'to create' if dry_run else 'created'}"
        say(f"{made}, {counted(len(found) - refused, 'difference')}, {counted(refused, 'refusal')}", err=True)
    else:
        say("every topic is there, as its spec says", err=True)
    if refused:
        return ExitCode.FAILED
    return ExitCode.DIFFERENCES if found or (dry_run and created) else ExitCode.DONE


def _create(spec: Spec, brokers: Topics, *, dry_run: bool) -> int:
    """Create what is missing, and return how many those are."""
    wanted = topics_of(spec)
    there = brokers.find(topic.name for topic in wanted)
    missing = 0
    for topic in wanted:
        if topic.name in there:
            continue
        missing += 1
        made = not dry_run and brokers.create(topic)
        told = "would be created" if dry_run else "created" if made else "was created by somebody else meanwhile"
        count = f"{topic.partitions} partition{'s' * (topic.partitions != 1)}"
        say(visible(f"{topic.name}: {told}, {count}"))
    return missing


def _differences(spec: Spec, brokers: Topics) -> Iterator[Difference]:
    wanted = {topic.name: topic for topic in topics_of(spec)}
    for name, topic in brokers.find(wanted).items():
        yield from differences(wanted[name], topic)
