"""docs/options.md: the stored catalogue as a page."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from catalogue import store
from cdc_outbox.databases.database import CAPTURED
from cdc_outbox.debezium.options import (
    CONNECTORS,
    Option,
    Rename,
    catalogue,
    framework,
    option_of,
    plugins,
    producer,
    renames,
    versions,
)

PAGE = Path(__file__).parents[1] / "docs" / "options.md"

_NAMES = {kind.value: kind.display_name for kind in CAPTURED}
_DEFAULT_CHARACTERS = 60
"""The length of a default in a cell; the data hold the rest."""

_INTRODUCTION = """\
# Options of Debezium's connectors, by version

`infra/catalogue` extracts the options from the plugins through a running Connect worker, and writes this page; do not
edit it. A cell has the option's default: `—` for none, **required** if there must be a value. Versions beside it have
this default, if not all versions below have it. An empty cell: the connector does not have the option.

- °: the worker does not report the option; the plugin's classes, or Connect's, declare it. It is not verified that the
  connector reads it.
- ?: not verified. Other connectors have the option since a version that was not available for this connector.
"""


def page() -> str:
    """Return the whole page."""
    parts = [_INTRODUCTION, _looked_at(), _connectors(), _kafka(), _plugins(), _renames()]
    return "\n".join(parts)


def _looked_at() -> str:
    rows = [
        [_NAMES[connector], ", ".join(versions(connector)), ", ".join(store.read(connector)["incomplete"]) or "—"]
        for connector in CONNECTORS
    ]
    note = "Newer versions were not in the repository, and are not verified.\n"
    head = ["Connector", "Debezium versions looked at", "Listed, but incomplete in the Maven repository"]
    return "## What was looked at\n\n" + _table(head, rows) + "\n" + note


def _connectors() -> str:
    lines = {connector: _by_name(store.read(connector)["options"]) for connector in CONNECTORS}
    names = sorted({name for options in lines.values() for name in options})
    rows = []
    for name in names:
        states = [state for options in lines.values() for state in options.get(name, ())]
        cells = [_cell(connector, name, lines) for connector in CONNECTORS]
        types = dict.fromkeys(state.type for state in states)
        rows.append([_code(name), ", ".join(types), *cells, _values_by_connector(name, lines)])
    head = ["Option", "Type", *_NAMES.values(), "Values"]
    return "## Connectors\n\n" + _table(head, rows)


def _cell(connector: str, name: str, lines: Mapping[str, Mapping[str, Sequence[Option]]]) -> str:
    if name in lines[connector]:
        return _states(lines[connector][name])
    first = [_since(other, states[0]) for other, options in lines.items() if (states := options.get(name))]
    return "?" if min(first) > _number(versions(connector)[-1]) else ""


def _since(connector: str, option: Option) -> tuple[int, ...]:
    return _number(option.since or versions(connector)[0])


def _kafka() -> str:
    rows = [[_code(option.name), option.type, _states([option]), _values([option])] for option in framework().values()]
    overrides = [
        [_code(f"producer.override.{option.name}"), option.type, _states([option]), _values([option])]
        for option in producer().values()
    ]
    head = ["Option", "Type", "Default", "Values"]
    note = "The defaults of the three converters are the worker's settings; `acks` and others are set by Connect.\n"
    return "## Connect's own options\n\n" + _table(head, [*rows, *overrides]) + "\n" + note


def _plugins() -> str:
    parts = ["## Transformations, predicates and converters\n"]
    for file in ("debezium", "connect"):
        for name, content in store.read(file)["plugins"].items():
            parts.append(f"### `{name}`\n")
            who = "Debezium" if file == "debezium" else "Kafka"
            parts.append(f"{', '.join(content['kinds'])}; {who} {', '.join(content['versions'])}\n")
            states = _by_name(content["options"])
            rows = [[_code(key), each[0].type, _states(each), _values(each)] for key, each in states.items()]
            parts.append(_table(["Option", "Type", "Default", "Values"], rows) if rows else "No options.\n")
    return "\n".join(parts)


def _renames() -> str:
    rows = [
        [_old(entry), _new(entry), entry.version, _whose(entry), "" if entry.same_values else "yes", _proof(entry)]
        for entry in renames()
    ]
    note = (
        "The versions come from Debezium's own history: the release beside an issue is the one with the change. "
        f"✓: the extracted options, which begin with {versions('postgresql')[0]}, have the new name and not the "
        "old one. ?: not verified.\n"
    )
    head = ["Gone", "Instead", "Since", "Of", "Other values", "Source"]
    return "## Renamed and removed since Debezium 1.9\n\n" + _table(head, rows) + "\n" + note


def _old(entry: Rename) -> str:
    return f"{_code(entry.value_of)} = {_code(entry.old)}" if entry.value_of else _code(entry.old)


def _new(entry: Rename) -> str:
    return _code(entry.new) if entry.new else "—"


def _whose(entry: Rename) -> str:
    return entry.plugin.rsplit(".", 1)[-1] or ", ".join(_NAMES[each] for each in entry.connectors) or "all"


def _proof(entry: Rename) -> str:
    older = [_NAMES[each] for each in entry.connectors if _number(versions(each)[-1]) < _number(entry.version)]
    if seen(entry):
        return f"{entry.source} ✓" + (f", ? for {', '.join(older)}" if older else "")
    return f"{entry.source} ?"


def seen(entry: Rename) -> bool:
    """Return whether the extracted options have the new name and not the old one."""
    if entry.value_of or entry.old.endswith(".") or entry.plugin:
        return _seen_otherwise(entry)
    newest = [catalogue(connector) for connector in entry.connectors]
    after = [each for each in newest if _number(each.version) >= _number(entry.version)]
    there = all(not entry.new or each.find(entry.new) for each in after)
    return bool(after) and there and not any(each.find(entry.old) for each in after)


def _seen_otherwise(entry: Rename) -> bool:
    if entry.plugin:
        content = store.read("debezium")["plugins"][entry.plugin]
        states = _by_name(content["options"])
        gone = all(state.until for state in states.get(entry.old, ()))
        return gone and (not entry.new or any(not state.until for state in states[entry.new]))
    if not entry.value_of:
        names = [name for connector in entry.connectors for name in catalogue(connector).options]
        there = any(name.startswith(entry.new) for name in names)
        return there and not any(name.startswith(entry.old) for name in names)
    if entry.value_of in framework():
        return entry.old not in plugins() and entry.new in plugins()
    newest = [catalogue(connector) for connector in entry.connectors]
    options = [each.options[entry.value_of] for each in newest if _number(each.version) >= _number(entry.version)]
    closed = [option.allowed for option in options if option.allowed]
    if not closed:
        return bool(options) and all(option.default == entry.new for option in options)
    return all(entry.new in values and entry.old not in values for values in closed)


def _by_name(rows: Sequence[Sequence[object]]) -> dict[str, list[Option]]:
    found: dict[str, list[Option]] = {}
    for option in map(option_of, rows):
        found.setdefault(option.name, []).append(option)
    return found


def _states(states: Sequence[Option]) -> str:
    """Return the cell of an option: its default, or each default with its versions, and added or removed values."""
    same = {(option.default, option.required, option.is_reported) for option in states}
    if len(same) > 1:
        return "; ".join(_default(option) + _span(option.since, option.until) for option in states)
    whole = _default(states[0]) + _span(states[0].since, states[-1].until)
    return "; ".join([whole, *_passing_values(states)])


def _default(option: Option) -> str:
    default = "**required**" if option.required else _code(option.default) if option.default is not None else "—"
    return default if option.is_reported else f"{default}°"


def _passing_values(states: Sequence[Option]) -> Iterator[str]:
    for value in sorted({value for option in states for value in option.allowed}):
        having = [option for option in states if value in option.allowed]
        if len(having) < len(states):
            yield _code(value) + _span(having[0].since, having[-1].until)


def _span(since: str, until: str) -> str:
    match bool(since), bool(until):
        case True, True:
            return f" ({since} to {until})"
        case True, False:
            return f" (since {since})"
        case False, True:
            return f" (until {until})"
        case _:
            return ""


def _values_by_connector(name: str, lines: Mapping[str, Mapping[str, Sequence[Option]]]) -> str:
    whose: dict[str, list[str]] = {}
    for connector, options in lines.items():
        values = _values(options.get(name, ()))
        if values:
            whose.setdefault(values, []).append(_NAMES[connector])
    if len(whose) == 1:
        return next(iter(whose))
    return "; ".join(f"{', '.join(theirs)}: {values}" for values, theirs in whose.items())


def _values(states: Sequence[Option]) -> str:
    return ", ".join(_code(value) for value in sorted({value for state in states for value in state.allowed}))


def _code(text: str) -> str:
    short = text if len(text) <= _DEFAULT_CHARACTERS else text[:_DEFAULT_CHARACTERS] + "…"
    return f"`{short}`".replace("|", "\\|") if short else "empty"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in version.split("."))
