"""What rows become on a connector's way to Kafka, without one: by our EventRouter, or by Debezium's own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cdc_outbox.contract.topics import raw_topic_name
from cdc_outbox.debezium.event_router import Change, ConnectRecord, ConnectValue, Routing, RoutingConfig
from cdc_outbox.debezium.event_router.jvm import NEWEST_PLUGINS, Outcome, RealRouter, fetch_plugin, find_jvm
from cdc_outbox.debezium.event_router.smt_options import NEWEST_VERSION
from cdc_outbox.debezium.java_regex import matches
from cdc_outbox.errors import RoutingError

_CONNECTOR = re.compile(r"io\.debezium\.connector\.(\w+)\.\w+")
_OWN_ROUTERS = {"oracle", "mongodb"}
"""Connectors whose plugin has an EventRouter of its own, or changes the usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """One connector's configuration, and how its rows are looked at.

    Args:
        config: As Connect gets it.
        source: Where the rows are, as Debezium calls it: ``public.outbox``.
        operation: ``c`` for an inserted row, ``r`` for one that a snapshot reads; ``u``, ``d`` and ``t``.
        time_ms: The time at which the connector is taken to see the rows.
        debezium: The release, in full; ``None`` for the newest.
    """

    config: Mapping[str, str]
    source: str = "public.outbox"
    operation: str = "c"
    time_ms: int = 0
    debezium: str | None = None
    routing: RoutingConfig = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "routing", RoutingConfig.from_config(self.config))

    @property
    def connector(self) -> str:
        """Debezium's word for the database."""
        found = _CONNECTOR.fullmatch(self.config.get("connector.class", ""))
        return found[1] if found else "postgresql"

    @property
    def raw_topic(self) -> str:
        """The topic that rows are for before they are routed."""
        prefix, delimiter = self.config.get("topic.prefix", "server"), self.config.get("topic.delimiter", ".")
        if self.source == "message":  # of which Debezium makes a name by itself
            return f"{prefix}.message"
        if self.connector != "sqlserver":
            return raw_topic_name(prefix, *self.source.split(".", 1), delimiter=delimiter)
        # One connector may read several databases, so their names are in the topics'; the first one stands for all.
        parts, database = self.source.split(".", 2), self.config.get("database.names", "").split(",")[0].strip()
        if database and self.source.count(".") == 1:
            parts = [database, *parts]
        return raw_topic_name(prefix, *parts, delimiter=delimiter)

    @property
    def notes(self) -> tuple[str, ...]:
        """The transforms that are skipped, and the predicate that keeps rows away from the EventRouter."""
        left_out = tuple(f"the transform {alias} is skipped" for alias in self.routing.others)
        return (*left_out, *([self._bypass()] if self._bypass() else []))

    def _bypass(self) -> str:
        """Return why rows would pass the EventRouter by, empty if they would not, or if its predicate is unknown."""
        router = f"transforms.{self.routing.alias}"
        name = self.config.get(f"{router}.predicate")
        if name is None or not self.config.get(f"predicates.{name}.type", "").endswith("TopicNameMatches"):
            return ""
        is_negated = self.config.get(f"{router}.negate", "false").lower() == "true"
        if matches(self.config.get(f"predicates.{name}.pattern", ""), self.raw_topic) is not is_negated:
            return ""
        return f"its predicate {name} hides messages of the topic {self.raw_topic} from the EventRouter"

    @property
    def partitions(self) -> int:
        """How many partitions a topic is made with, as far as the configuration says."""
        stated = self.config.get("topic.creation.default.partitions", "")
        return int(stated) if re.fullmatch("[1-9][0-9]{0,8}", stated) else 1

    def imitate(self, rows: Sequence[Mapping[str, ConnectValue] | str]) -> list[Outcome]:
        """Return what our own EventRouter makes of the rows; raises ``ConfigError`` for what it does not imitate."""
        release = re.match(r"(\d+)\.(\d+)", self.debezium or "")
        version = (int(release[1]), int(release[2])) if release else NEWEST_VERSION
        try:
            routing = Routing.from_config(self.routing, version=version, connector=self.connector)
        except RoutingError as error:
            return [error] * len(rows)
        return [_outcome(routing, record) for record in self._records(rows)]

    def run_real(self, rows: Sequence[Mapping[str, ConnectValue] | str], cache: Path) -> list[Outcome]:
        """Return what Debezium's own EventRouter makes of the rows, and Connect's own converters.

        Args:
            cache: The user's cache folder for this package; Maven fetches missing files.

        Raises:
            StackError: Java, its compiler or Maven is missing, or there is no such release.
        """
        jvm, plugin = find_jvm(cache), None
        artifact = self.connector if self.connector in _OWN_ROUTERS else "postgres"
        release = self.debezium or NEWEST_PLUGINS.get(artifact)
        if release is not None:
            plugin = fetch_plugin(cache, artifact, release)
        with RealRouter.open(jvm, plugin) as real:
            outcomes = real.route(self.routing, self._records(rows), connector=self.connector)
        return outcomes if len(outcomes) == len(rows) else outcomes * len(rows)

    def _records(self, rows: Sequence[Mapping[str, ConnectValue] | str]) -> list[ConnectRecord]:
        return [
            ConnectRecord(
                topic=self.raw_topic,
                value=Change(
                    row=None if isinstance(row, str) or self.operation in {"d", "t"} else row,
                    document=row if isinstance(row, str) else None,
                    operation=self.operation,
                    connector_time_ms=self.time_ms,
                    row_schema=f"{self.raw_topic}.Value",
                ),
            )
            for row in rows
        ]


def _outcome(routing: Routing, record: ConnectRecord) -> Outcome:
    try:
        return routing.message(record)
    except RoutingError as error:
        return error
