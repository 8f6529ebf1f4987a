"""``cdc-outbox topics``."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import specs_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.groups import Group
from cdc_outbox.cli.options import dry_run_option, json_option
from cdc_outbox.cli.output import ExitCode, document, paint, say
from cdc_outbox.cli.specs import read_specs
from cdc_outbox.contract.topics import Topic, TopicDifference, differences
from cdc_outbox.debezium.render import topics_of
from cdc_outbox.errors import BrokerError
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.redaction import counted, visible
from cdc_outbox.spec import Spec

_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())  # what librdkafka says is in the error


_STATES = {None: "missing", True: "created", False: "created meanwhile"}
"""What became of a topic that was missing, by whether this process made it."""


@click.group(cls=Group)
def topics() -> None:
    """Create the topics of pipelines.

    This is needed only if neither the brokers nor Connect may create topics.

    \b
    Example:
      cdc-outbox topics create connectors/
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one topic of a spec.

    Args:
        state: ``exists``, ``missing``, ``created``, or ``created meanwhile`` by another process.
    """

    topic: Topic
    state: str
    differences: tuple[TopicDifference, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield what there is to tell; nothing of a topic that is as its spec says."""
        words = {"missing": "would be created", "created meanwhile": "was created by another process meanwhile"}
        if self.state != "exists":
            count = counted(self.topic.partitions, "partition")
            yield visible(f"{self.topic.name}: {words.get(self.state, self.state)}, {count}")
        for each in self.differences:
            yield f"{paint('error:', 'red') if each.is_refused else 'differs:'} {visible(str(each))}"

    def content(self) -> Mapping[str, Any]:
        """Return it for a JSON document."""
        found = [{"message": d.text, "remedy": d.remedy, "isRefused": d.is_refused} for d in self.differences]
        name, partitions = self.topic.name, self.topic.partitions
        return {"name": name, "partitions": partitions, "state": self.state, "differences": found}


@topics.command()
@specs_argument
@broker_options()
@dry_run_option
@json_option()
def create(
    paths: tuple[Path, ...], *, bootstrap_servers: str, kafka_settings: Path | None, dry_run: bool, prints_json: bool
) -> ExitCode:
    """Create the topics that are missing.

    The command creates the topics of events and heartbeats and, if the database needs one, the topic of the schema
    history, with the partitions, replicas and retention of the spec. It never changes an existing topic, and reports
    differences. If the spec has more partitions than an existing topic, the command refuses: additional partitions
    break the order of an aggregate's events unless the pipeline is drained first.

    Exit codes: 0 every topic matches its spec, 1 the spec has more partitions than a topic, 2 an invalid spec, 3
    another difference, or with --dry-run a missing topic, 75 try again later.

    \b
    Examples:
      cdc-outbox topics create connectors/orders.yaml
      cdc-outbox topics create connectors/ --context production --dry-run
    """
    specs = read_specs(paths)
    brokers = Topics(broker_settings(bootstrap_servers, kafka_settings, group="cdc-outbox topics"), _LOG)
    outcomes = []
    for spec in specs.values():
        for outcome in _create(spec, brokers, dry_run=dry_run):
            outcomes.append(outcome)
            for line in () if prints_json else outcome.lines():
                say(line)
    if prints_json:
        say(document("Topics", {"topics": [each.content() for each in outcomes]}))
    created = sum(each.state != "exists" for each in outcomes)
    found = [difference for each in outcomes for difference in each.differences]
    refused = sum(each.is_refused for each in found)
    if found or created:
        made = f"{counted(created, 'topic')} {'to create' if dry_run else 'created'}"
        say(f"{made}, {counted(len(found) - refused, 'difference')}, {counted(refused, 'refusal')}", err=True)
    else:
        say("every topic exists and matches its spec", err=True)
    if refused:
        return ExitCode.FAILED
    return ExitCode.DIFFERENCES if found or (dry_run and created) else ExitCode.DONE


def _create(spec: Spec, brokers: Topics, *, dry_run: bool) -> Iterator[_Outcome]:
    """Create what is missing, and yield what became of each topic.

    Raises:
        BrokerError: The brokers refuse one of them; what became of the others was yielded before.
    """
    wanted = topics_of(spec)
    there = brokers.find(topic.name for topic in wanted)
    missing = [topic for topic in wanted if topic.name not in there]
    made = {} if dry_run or not missing else brokers.create(missing)
    # The brokers, or another process, may have made them other than they were asked for.
    found = {**there, **(brokers.find(made) if made else {})}
    refused = [error for error in made.values() if isinstance(error, BrokerError)]
    for topic in wanted:
        created = made.get(topic.name)
        if isinstance(created, BrokerError):
            continue
        state = "exists" if topic.name in there else _STATES[created]
        known = found.get(topic.name)
        yield _Outcome(topic=topic, state=state, differences=() if known is None else tuple(differences(topic, known)))
    if refused:
        raise refused[0]
