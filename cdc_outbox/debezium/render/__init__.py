"""A spec as the flat configuration that Connect takes. Pure.

What every connector has stands here; what only one database's has in ``capture``, what becomes of a row in
``transforms``, and how topics are made in ``topics``.
"""

from collections.abc import Iterator, Mapping

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.sql import load
from cdc_outbox.debezium.render import capture
from cdc_outbox.debezium.render.capture import HEARTBEAT_PREFIX, raw_topic, refuse_file
from cdc_outbox.debezium.render.options import RenderedOption, option, refuse_overrides
from cdc_outbox.debezium.render.topics import topic_creation, topics_of
from cdc_outbox.debezium.render.transforms import BINARY_CONVERTER, event_router_of, pipeline
from cdc_outbox.spec import Latency, Spec

__all__ = [
    "BINARY_CONVERTER",
    "HEARTBEAT_PREFIX",
    "LATENCIES",
    "REPUBLISHING",
    "RenderedOption",
    "event_router_of",
    "origins_of",
    "owes_rows",
    "owing_rows",
    "raw_topic",
    "refuse_file",
    "render",
    "render_republishing",
    "rendered_options",
    "topics_of",
]

_SELECTED = "snapshot.select.statement.overrides"
REPUBLISHING = "initial_only"
"""The snapshot mode of a connector that publishes the rows of the table, and nothing behind them."""

LATENCIES: Mapping[Latency, Mapping[str, str]] = {
    # Figures: `infra/bench latency`. The connector looks at its queue this often, busy or idle. And Kafka's producer
    # waits another 5 ms for company; larger batches and queues change nothing here.
    Latency.LOW: {"poll.interval.ms": "5", "producer.override.linger.ms": "0"},
    Latency.BALANCED: {"poll.interval.ms": "10"},
    Latency.ECONOMY: {"poll.interval.ms": "500"},
}
"""What each latency profile sets."""

_HEARTBEAT_INTERVAL_MS = 10_000
"""Short enough that an idle outbox holds back seconds of the log, long enough that the messages cost little."""


def render(spec: Spec) -> dict[str, str]:
    """Return the connector's whole configuration, its name included.

    Raises:
        ConfigError: An override would break a promise, or contradict what the spec has a word for; or the database
            is a file.
    """
    return {each.name: each.value for each in rendered_options(spec)}


def rendered_options(spec: Spec) -> tuple[RenderedOption, ...]:
    """Return every option of the connector, with the keys of the spec that decide it.

    Raises:
        ConfigError: As :func:`render` does.
    """
    refuse_file(spec)
    decided = tuple(_options(spec))
    refuse_overrides(spec, decided)
    own = {name: option(name, value, "overrides") for name, value in spec.overrides.items()}
    return tuple(({each.name: each for each in decided if each.value} | own).values())


def origins_of(spec: Spec) -> Mapping[str, tuple[str, ...]]:
    """Return the keys that decide each option, also of those that the spec leaves at their default.

    An option without keys is a constant; one that is overridden, or that no spec decides, is not there.
    """
    return {each.name: each.origins for each in _options(spec) if each.name not in spec.overrides}


def render_republishing(spec: Spec) -> dict[str, str]:
    """Return the configuration with which Debezium publishes the rows in the table, each aggregate's in order.

    The snapshot alone, not the streaming behind it: streaming begins where the slot does. PostgreSQL only.
    """
    return owing_rows(render(spec), spec)


def owing_rows(config: Mapping[str, str], spec: Spec) -> dict[str, str]:
    """Return a configuration that owes the rows of the table: with it, a connector that runs publishes nothing else.

    It is also the record of that debt, which Connect keeps through restarts, until the configuration of
    :func:`render` replaces it.
    """
    table = str(spec.outbox.table)
    statement = load("postgresql", "preflight")["snapshot"].render(spec.outbox.names())
    return {
        **config,
        "snapshot.mode": REPUBLISHING,
        _SELECTED: table,
        f"{_SELECTED}.{table}": statement,
    }


def owes_rows(config: Mapping[str, str]) -> bool:
    """Return whether a connector was to publish the rows of its table again, and no deployment saw the end of it.

    Others' connectors that take a snapshot only have statements of their own for it at most.
    """
    return config.get("snapshot.mode") == REPUBLISHING and _SELECTED in config


def _options(spec: Spec) -> Iterator[RenderedOption]:
    """Yield every option that a spec decides, those that it leaves out too."""
    database = spec.database
    yield option("name", spec.name, "name")
    yield option("connector.class", database.kind.connector_class, "database.kind")
    yield option("tasks.max", "1")
    prefix_keys = ("topic_prefix",) if spec.topic_prefix != spec.name else ("topic_prefix", "name")
    yield option("topic.prefix", spec.topic_prefix, *prefix_keys)
    yield from capture.login(database)
    yield from capture.CAPTURES[database.kind](spec)
    yield option("snapshot.mode", "no_data")
    yield option("skipped.operations", "u,d,t")
    yield option("tombstones.on.delete", "false")
    for name in LATENCIES[Latency.LOW]:
        yield option(name, LATENCIES[spec.latency].get(name, ""), "latency")
    # Without these the offset of an idle outbox in a busy database stands still: Debezium confirms only what it has
    # seen. A slot then holds back WAL until the disk is full, and a binlog is gone before it was read.
    yield option("heartbeat.interval.ms", str(_HEARTBEAT_INTERVAL_MS))
    yield option("extended.headers.enabled", "false")
    if database.kind is not DatabaseKind.MONGODB:  # a document's values have no columns that they could fail to fit
        # A value that cannot be read would become null, and a payload with it a tombstone.
        yield option("event.converting.failure.handling.mode", "fail")
    # A retry writes no event twice; and a worker whose own setting lets events get lost with one broker (acks) fails
    # the task at its start.
    yield option("producer.override.enable.idempotence", "true")
    yield from pipeline(spec)
    yield from topic_creation(spec)
