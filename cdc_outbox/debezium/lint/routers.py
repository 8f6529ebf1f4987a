"""A configuration's EventRouters, as far as our own EventRouter supports them. Pure."""

from dataclasses import replace

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import Config, Router, is_reference
from cdc_outbox.debezium.event_router import Change, ConnectRecord, ConnectStruct, EventRouter
from cdc_outbox.debezium.event_router.expanded_envelope import EnvelopeMemory
from cdc_outbox.debezium.java_regex import InvalidRegexError, read_regex
from cdc_outbox.debezium.lint.records import STRUCTURE, EnvelopeChange
from cdc_outbox.debezium.regex_program import UnknownRegexError
from cdc_outbox.errors import RoutingError


def compiled_router(router: Router, config: Config) -> tuple[EventRouter, bool]:
    """Return our EventRouter with this router's options, and whether the topics that it sets are known.

    JSON is not expanded. MongoDB's options are those of the EventRouter with other names.

    Raises:
        RoutingError: Debezium's ``configure()`` throws.
        ConfigError: Our EventRouter does not support the options.
    """
    options = {
        f"table.{option.removeprefix('collection.')}" if option.startswith("collection.") else option: value
        for option, value in router.options.items()
        if not option.endswith(".expand.json.payload")
    }
    knows = _is_known(router.get("route.topic.regex")) and not is_reference(router.get("route.topic.replacement"))
    if not knows:
        options = {option: value for option, value in options.items() if not option.startswith("route.topic.re")}
    connector = "oracle" if config.kind is DatabaseKind.ORACLE else ""
    version = (config.version[0], config.version[1])
    return EventRouter.from_options(options, version=version, connector=connector), knows


def _is_known(regex: str) -> bool:
    try:
        read_regex(regex)
    except InvalidRegexError:
        return True  # EventRouter refuses it, as Debezium's does
    except UnknownRegexError:
        return False
    return True


def routed(router: Router, real: EventRouter, record: ConnectRecord, *, knows_topic: bool) -> ConnectRecord | None:
    """Return a router's result for a record; an expanded payload is a structure with unknown fields.

    Raises:
        RoutingError: The task fails on the record.
        ConfigError: The result is not known.
    """
    value = record.value
    if isinstance(value, EnvelopeChange):
        if not {"op", "after"} <= value.fields:
            record = replace(record, value=value.structure)
        elif value.connector_time_ms is None and real.timestamp_column is None:
            raise RoutingError("ts_ms is not a number", exception="DataException")
    found = real.transform(record, EnvelopeMemory())
    if found is None or not isinstance(record.value, Change):
        return found
    if not knows_topic:
        found = replace(found, topic="")
    return replace(found, value=ConnectStruct(STRUCTURE, {})) if router.expands else found
