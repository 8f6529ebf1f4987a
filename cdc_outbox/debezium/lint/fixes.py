"""What has one right answer, fixed in the text. Pure.

Fixed is what means nothing as it stands, or has another name by now. What a running pipeline depends on, its slot, its
publication, the form of its messages, is left to whoever runs it, and so is what can be meant in two ways.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cdc_outbox.debezium import options
from cdc_outbox.debezium.config import NEWEST, Config, Router, Version
from cdc_outbox.debezium.config_texts import find_in_text, read_text
from cdc_outbox.debezium.lint import RULES
from cdc_outbox.debezium.lint.options import find_rename, find_renamed_value
from cdc_outbox.debezium.options import Rename
from cdc_outbox.finding import Location
from cdc_outbox.text_files.patch import Patch

_ENOUGH = 1_000
"""Changes of one text: more are an accident, or meant to keep the linter busy."""


class Edit(NamedTuple):
    """One change: an option gets another name, another value, or goes; one that is not there is added.

    Args:
        name: The new name; empty if it goes.
        value: The new value; ``None`` leaves it.
    """

    option: str
    name: str
    value: str | None = None


Fixer = Callable[[Config, str], tuple[Edit, ...]]
"""From a configuration and the option at which a rule hit to what fixes it; nothing where more than one thing may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """What was fixed: the finding's code, where it stood, and what stands there now."""

    code: str
    location: Location
    change: str

    def __str__(self) -> str:
        return f"{self.location}: fixed {self.code}: {self.change}"


def fix(text: str, *, name: str, version: Version = NEWEST) -> tuple[str, list[Fixed]]:
    """Return a text in which everything with one right answer is fixed, and what that was.

    Args:
        name: As for :func:`cdc_outbox.debezium.config_texts.find_in_text`.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    text, done = text.removeprefix(mark), list[Fixed]()
    while len(done) < _ENOUGH:
        step = next(_steps(text, name, version), None)
        if step is None:
            break
        text, fixed = step
        done.append(fixed)
    return mark + text, done


def _steps(text: str, name: str, version: Version) -> Iterator[tuple[str, Fixed]]:
    """Return the text after each thing that can be fixed first."""
    configs, _ = find_in_text(text, name=name, version=version)
    for config in configs:
        for rule in RULES:
            fixer = FIXERS.get(rule.code)
            for hit in rule.hits(config) if fixer else ():
                edits = fixer(config, hit.option) if fixer else ()
                fixed = _edited(text, name, config, edits) if edits else None
                if fixed is not None:
                    yield fixed, Fixed(code=rule.code, location=config.locations(hit.option), change=_told(edits))


def _edited(text: str, name: str, config: Config, edits: tuple[Edit, ...]) -> str | None:
    """Return a text with these changes, ``None`` if it cannot have them all."""
    edited: str | None = text
    for edit in edits:
        document = read_text(edited or "", name=name)
        if edited is None or document.findings:
            return None
        patch, path = Patch(edited, document), config.locations.path(edit.option)
        if not edit.name:
            edited = patch.remove(path)
        elif edit.name != edit.option:
            edited = patch.rename(path, edit.name)
        elif path in document.spans:
            edited = patch.put(path, edit.value or "")
        else:
            edited = patch.add(path, edit.value or "", after="connector.class")
    return edited if edited is not None and not read_text(edited, name=name).findings else None


def _told(edits: tuple[Edit, ...]) -> str:
    return ", ".join(_told_of(edit) for edit in edits) + "."


def _told_of(edit: Edit) -> str:
    if not edit.name:
        return f"{edit.option} is left out"
    if edit.name != edit.option:
        return f"{edit.option} is now {edit.name}"
    return f"{edit.option} is now {edit.value}"


def _leave_out(_config: Config, option: str) -> tuple[Edit, ...]:
    return (Edit(option, ""),)


def _renamed_option(config: Config, option: str) -> tuple[Edit, ...]:
    rename = find_rename(config, option)
    return () if rename is None else _as_renamed(option, rename, "", config)


def _renamed_value(config: Config, option: str) -> tuple[Edit, ...]:
    rename = find_renamed_value(config, option)
    if rename is None or not rename.same_values or not _has_come(rename, config):
        return ()
    return (Edit(option, option, rename.new),) if rename.new else _leave_out(config, option)


def _renamed_of_plugin(config: Config, option: str) -> tuple[Edit, ...]:
    for plugin in (*config.transforms, *config.predicates.values()):
        if option.startswith(plugin.prefix):
            rename = options.renamed(option.removeprefix(plugin.prefix), plugin=plugin.type)
            return () if rename is None else _as_renamed(option, rename, plugin.prefix, config)
    return ()


def _as_renamed(option: str, rename: Rename, prefix: str, config: Config) -> tuple[Edit, ...]:
    if not _has_come(rename, config):
        return ()
    now = prefix + rename.new
    if not rename.new or config.has(now):
        return _leave_out(config, option)
    if not rename.same_values:
        return ()
    if now in config.options:  # and empty
        return Edit(now, now, config.options[option]), Edit(option, "")
    return (Edit(option, now),)


def _has_come(rename: Rename, config: Config) -> bool:
    """Tell whether the version that runs has a rename already."""
    return tuple(map(int, rename.version.split(".")[:2])) <= config.version


def _pgoutput(config: Config, option: str) -> tuple[Edit, ...]:
    return () if config.has(option) else (Edit(option, option, "pgoutput"),)


def _place_type(config: Config, option: str) -> tuple[Edit, ...]:
    router = _router_of(config, option)
    if router is None or "eventType" in router.placed("header"):
        return ()
    placement, placed = router.prefix + router.placement, f"{config.get(option)}:header:eventType"
    if placement not in config.options:
        return Edit(option, placement), Edit(placement, placement, placed)
    already = router.get(router.placement).rstrip(", ")
    return Edit(placement, placement, f"{already},{placed}" if already else placed), Edit(option, "")


def _missing_columns(config: Config, option: str) -> tuple[Edit, ...]:
    router = _router_of(config, option)
    if router is None:
        return ()
    now = f"{router.prefix}{router.table}.field.additional.missing"
    if now in config.options:
        return _leave_out(config, option)
    return Edit(option, now), Edit(now, now, "ignore")


def _invalid_operations(config: Config, option: str) -> tuple[Edit, ...]:
    now = option.replace("collection.op.", "table.op.")
    return _leave_out(config, option) if now in config.options else (Edit(option, now),)


def _router_of(config: Config, option: str) -> Router | None:
    return next((router for router in config.routers if option.startswith(router.prefix)), None)


FIXERS: dict[str, Fixer] = {
    "CC102": _renamed_option,
    "CC103": _renamed_option,
    "CC104": _renamed_value,
    "CC225": _leave_out,
    "CC226": _renamed_of_plugin,
    "CC301": _renamed_of_plugin,
    "CC302": _place_type,
    "CC319": _leave_out,
    "CC323": _leave_out,
    "CC324": _missing_columns,
    "CC328": _invalid_operations,
    "CC329": _leave_out,
    "CC601": _pgoutput,
}
"""What fixes a finding, by its code."""
