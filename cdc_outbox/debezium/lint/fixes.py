"""Fix findings that have one correct solution, in the text. Pure.

The fixes remove options without effect and rename options. They do not change what a running pipeline depends on (its
slot, its publication, the format of its messages), nor anything with more than one possible solution.
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
"""Maximum number of changes of one text, against accidental or malicious input."""


class Edit(NamedTuple):
    """One change: rename, set, add or remove an option.

    Args:
        name: The new name; empty to remove the option.
        value: The new value; ``None`` keeps the value.
    """

    option: str
    name: str
    value: str | None = None


Fixer = Callable[[Config, str], tuple[Edit, ...]]
"""From a configuration and the option of a hit to its fix; empty if there is more than one solution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """One applied fix: the finding's code, its location, and the change."""

    code: str
    location: Location
    change: str

    def __str__(self) -> str:
        return f"{self.location}: fixed {self.code}: {self.change}"


def fix(text: str, *, name: str, version: Version = NEWEST) -> tuple[str, list[Fixed]]:
    """Return the text with all fixes applied, and the list of them.

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
    """Yield the text after each fix that can be applied next."""
    configs, _ = find_in_text(text, name=name, version=version)
    for config in configs:
        for rule in RULES:
            fixer = FIXERS.get(rule.code)
            for hit in rule.hits(config) if fixer else ():
                edits = fixer(config, hit.option) if fixer else ()
                fixed = _edited(text, name, config, edits) if edits else None
                if fixed is not None:
                    yield (
                        fixed,
                        Fixed(code=rule.code, location=config.locations(hit.option), change=_description(edits)),
                    )


def _edited(text: str, name: str, config: Config, edits: tuple[Edit, ...]) -> str | None:
    """Return a text with these changes, ``None`` if one of them cannot be applied."""
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


def _description(edits: tuple[Edit, ...]) -> str:
    return ", ".join(_description_of(edit) for edit in edits) + "."


def _description_of(edit: Edit) -> str:
    if not edit.name:
        return f"{edit.option} is removed"
    if edit.name != edit.option:
        return f"{edit.option} is now {edit.name}"
    return f"{edit.option} is now {edit.value}"


def _remove(_config: Config, option: str) -> tuple[Edit, ...]:
    return (Edit(option, ""),)


def _renamed_option(config: Config, option: str) -> tuple[Edit, ...]:
    rename = find_rename(config, option)
    return () if rename is None else _as_renamed(option, rename, "", config)


def _renamed_value(config: Config, option: str) -> tuple[Edit, ...]:
    rename = find_renamed_value(config, option)
    if rename is None or not rename.same_values or not _is_included(rename, config):
        return ()
    return (Edit(option, option, rename.new),) if rename.new else _remove(config, option)


def _renamed_of_plugin(config: Config, option: str) -> tuple[Edit, ...]:
    for plugin in (*config.transforms, *config.predicates.values()):
        if option.startswith(plugin.prefix):
            rename = options.renamed(option.removeprefix(plugin.prefix), plugin=plugin.type)
            return () if rename is None else _as_renamed(option, rename, plugin.prefix, config)
    return ()


def _as_renamed(option: str, rename: Rename, prefix: str, config: Config) -> tuple[Edit, ...]:
    if not _is_included(rename, config):
        return ()
    now = prefix + rename.new
    if not rename.new or config.has(now):
        return _remove(config, option)
    if not rename.same_values:
        return ()
    if now in config.options:  # and empty
        return Edit(now, now, config.options[option]), Edit(option, "")
    return (Edit(option, now),)


def _is_included(rename: Rename, config: Config) -> bool:
    """Return whether the configured version includes a rename."""
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
        return _remove(config, option)
    return Edit(option, now), Edit(now, now, "ignore")


def _invalid_operations(config: Config, option: str) -> tuple[Edit, ...]:
    now = option.replace("collection.op.", "table.op.")
    return _remove(config, option) if now in config.options else (Edit(option, now),)


def _router_of(config: Config, option: str) -> Router | None:
    return next((router for router in config.routers if option.startswith(router.prefix)), None)


FIXERS: dict[str, Fixer] = {
    "CC102": _renamed_option,
    "CC103": _renamed_option,
    "CC104": _renamed_value,
    "CC225": _remove,
    "CC226": _renamed_of_plugin,
    "CC301": _renamed_of_plugin,
    "CC302": _place_type,
    "CC319": _remove,
    "CC323": _remove,
    "CC324": _missing_columns,
    "CC328": _invalid_operations,
    "CC329": _remove,
    "CC601": _pgoutput,
}
"""The fixes of findings, by code."""
