"""The one table of what is known about options, and what is asked of it."""

from collections.abc import Container

from cdc_outbox.debezium.options.behavior import Impact, OptionBehavior, Value, connector
from cdc_outbox.debezium.options.capture_options import CAPTURE_OPTIONS
from cdc_outbox.debezium.options.kafka_options import KAFKA_OPTIONS
from cdc_outbox.debezium.options.router_options import ROUTER_OPTIONS

OPTIONS: tuple[OptionBehavior, ...] = (*CAPTURE_OPTIONS, *ROUTER_OPTIONS, *KAFKA_OPTIONS)
"""Of several entries that cover an option, the first counts that has a word for what is asked."""

_UNKNOWN = connector("Nothing is known of it that changes messages.")
"""What there is no word for restarts the task and changes no message, as far as is known."""


def impact_of(option: str, before: Value | None, after: Value | None) -> Impact:
    """Return what a change of a running connector does."""
    impacts = (impact for entry in OPTIONS if entry.covers(option) for impact in entry.changed)
    return next((impact for impact in impacts if impact.when(before, after)), _UNKNOWN)


def adoption_of(option: str, before: Value | None, after: Value | None) -> Impact | None:
    """Return what it means that a spec's connector has another value; ``None`` if nothing is known of it."""
    impacts = (impact for entry in OPTIONS if entry.covers(option) for impact in entry.adopted)
    return next((impact for impact in impacts if impact.when(before, after)), None)


def reason_against(option: str, value: str, decided: Container[str]) -> str:
    """Return why an override may not have this value, empty if it may.

    Args:
        decided: The options that the spec sets by itself.
    """
    for entry in OPTIONS:
        if entry.promise is not None and entry.covers(option):
            return entry.promise.reason
        if entry.override is not None and entry.covers(option):
            return entry.override(value)
    return "the spec decides it" if option in decided else ""


def untold_default(option: str) -> str | None:
    """Return the default of an option of which no plugin tells a worker; ``None`` if it has none."""
    return next((entry.default for entry in OPTIONS if entry.default and option in entry.names), None)
