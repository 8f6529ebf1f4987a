"""Compiled routes against the EventRouter itself, row by row: ``infra/fuzz routes --cases 100000``."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from cdc_outbox.debezium.event_router import Change, ConnectRecord, Routing, RoutingConfig
from cdc_outbox.debezium.event_router.column_values import ColumnModes, column_value
from cdc_outbox.debezium.event_router.compiled import Route, RouteCompiler
from cdc_outbox.debezium.event_router.produce import RoutedEvent, find_refusal
from cdc_outbox.errors import ConfigError, DecodeError, RoutingError
from fuzz.route_cases import RouteCase, make_route_case

NOW = 1_790_000_000_123
RAW_TOPIC = "orders.public.outbox"

Outcome = RoutedEvent | str


def is_compiled(route: Route) -> bool:
    """Tell whether a route is generated code, and not the reference."""
    return route.__module__ != RouteCompiler.__module__


def compare(case: RouteCase, seen: Counter[str]) -> list[str]:
    """Return where the compiled route and the EventRouter differ, and count what was compared."""
    try:
        routing = Routing.from_config(RoutingConfig.from_config(case.config), connector="postgresql")
    except (ConfigError, RoutingError):
        seen["refused configurations"] += 1
        return []
    compiler = RouteCompiler(routing=routing, modes=ColumnModes(case.config), raw_topic=RAW_TOPIC, clock=lambda: NOW)
    try:
        route = compiler.compile(case.columns)
    except ConfigError:
        seen["refused relations"] += 1
        return [] if case.is_refused else [f"{case.columns} are refused"]
    if case.is_refused:
        return [f"{case.columns} are not refused"]
    seen["compiled" if is_compiled(route) else "not compiled"] += 1
    # One of its own: it remembers the schemas of envelopes.
    reference = Routing.from_config(RoutingConfig.from_config(case.config), connector="postgresql")
    differences = []
    for row in case.rows:
        ours, theirs = _outcome(route, row), _expected(reference, case, row)
        seen["errors" if isinstance(theirs, str) else "events"] += 1
        if ours != theirs:
            differences.append(f"{row}\n  {ours}\n  {theirs}, the EventRouter")
    return differences


def _outcome(route: Route, row: Sequence[bytes | None]) -> Outcome:
    try:
        return route(row)
    except (ConfigError, DecodeError, RoutingError) as error:
        return type(error).__name__


def _expected(reference: Routing, case: RouteCase, row: Sequence[bytes | None]) -> Outcome:
    """Return what the reference makes of a row, with all of its columns."""
    if len(row) != len(case.columns):
        return "DecodeError"
    modes = ColumnModes(case.config)
    try:
        values = {
            column.name: column_value(column, None if text is None else text.decode(), modes)
            for column, text in zip(case.columns, row, strict=True)
        }
        change = Change(row=values, connector_time_ms=NOW, row_schema=f"{RAW_TOPIC}.Value")
        message = reference.message(ConnectRecord(topic=RAW_TOPIC, value=change))
    except (ConfigError, RoutingError) as error:
        return type(error).__name__
    assert message is not None
    if find_refusal(message, 2**31) or message.timestamp_ms == 0:
        return "RoutingError"
    timestamp_ms = NOW if message.timestamp_ms in {None, -1} else message.timestamp_ms
    assert timestamp_ms is not None
    partition = -1 if message.partition is None else message.partition
    return message.topic, message.value, message.key, partition, timestamp_ms, list(message.headers)


def explore(seeds: range) -> tuple[Counter[str], list[str]]:
    """Compare the cases of these numbers; return what was counted, and the differences."""
    seen: Counter[str] = Counter()
    differences = [f"case {seed}: {each}" for seed in seeds for each in compare(make_route_case(seed), seen)]
    return seen, differences


def main() -> int:
    """Compare; exit 1 at a difference."""
    parser = argparse.ArgumentParser(prog="infra/fuzz routes", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    began = time.monotonic()
    seen, differences = explore(range(chosen.first, chosen.first + chosen.cases))
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(seen.items()))
    print(f"{chosen.cases:,} cases in {time.monotonic() - began:.0f} s: {counts}; {len(differences)} differences")
    for difference in differences[:20]:
        print(difference)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
