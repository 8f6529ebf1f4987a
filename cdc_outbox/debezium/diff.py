"""The differences of two configurations of one connector, with their impact and their keys in a spec."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cdc_outbox.debezium.config import NEWEST, Config, Version
from cdc_outbox.debezium.normalized_config import NormalizedConfig, OptionDifference, differences
from cdc_outbox.debezium.options.behavior import Impact, ImpactLevel, Value
from cdc_outbox.debezium.options.lookup import impact_of
from cdc_outbox.finding import Location
from cdc_outbox.redaction import MASK, hides
from cdc_outbox.text_files.document import Path


@dataclass(frozen=True, slots=True)
class OptionChange:
    """One option of the configuration, before and after; ``None`` if it is not set. Secrets are masked.

    Args:
        effect: The impact on consumers; ``None`` for a new connector.
        formerly: The option's name in the configuration before, if it differs.
        key: The spec keys that decide it, with a comma between two; empty where only ``overrides`` sets it, or for a
            new connector.
        dropped: The entries of a list that only the configuration before contains.
        added: The entries of a list that only the configuration after contains.
    """

    option: str
    before: str | None
    after: str | None
    effect: Impact | None = None
    formerly: str = ""
    key: str = ""
    dropped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def is_dangerous(self) -> bool:
        """Whether a deployment makes it only with ``--replace``."""
        return self.effect is not None and self.effect.level is ImpactLevel.DANGEROUS

    @property
    def shown(self) -> tuple[str | None, str | None]:
        """Before and after, with secrets masked."""
        return masked(self.formerly or self.option, self.before), masked(self.option, self.after)

    def __str__(self) -> str:
        before, after = self.shown
        formerly = f" (was {self.formerly})" if self.formerly else ""
        if before is None:
            return f"+ {self.option}{formerly} = {after}"
        if after is None:
            return f"- {self.option}{formerly} = {before}"
        if (self.dropped or self.added) and MASK not in {before, after}:
            entries = [*(f"- {entry}" for entry in self.dropped), *(f"+ {entry}" for entry in self.added)]
            return f"~ {self.option}{formerly}: {', '.join(entries)}"
        return f"~ {self.option}{formerly} = {before} -> {after}"

    @property
    def line(self) -> str:
        """The change with the spec's key before it."""
        text = str(self)
        return f"{text[0]} {self.key}: {text[2:]}" if self.key else text


def changes_between(
    before: Mapping[str, str] | None,
    after: Mapping[str, str],
    *,
    origins: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    version: Version = NEWEST,
) -> tuple[OptionChange, ...]:
    """Return the differences of two normalized configurations; for a new connector, every option.

    Args:
        origins: The keys of a spec that decide each option of the configuration after.
        version: The version of Debezium, whose defaults apply.
    """
    if before is None:
        return tuple(OptionChange(option, None, after[option]) for option in sorted(after))
    first, second = _config(before, version), _config(after, version)
    old, new = NormalizedConfig(first), NormalizedConfig(second)
    found = []
    for difference in differences(first, second):
        key = difference.key
        was = old.said[key].option if key in old.said else old.option(key)
        becomes = new.said[key].option if key in new.said else new.option(key)
        formerly = was if was != becomes and was in before else ""
        texts = before.get(was), after.get(becomes)
        dropped, added = _entries(difference)
        if texts[0] == texts[1]:  # the difference is elsewhere: in the predicate that both name
            texts = _text(difference.before), _text(difference.after)
        impact = impact_of(key, difference.before, difference.after)
        keys = ", ".join(origins.get(becomes, ()))
        found.append(OptionChange(becomes, *texts, impact, formerly, keys, dropped=dropped, added=added))
    return tuple(sorted(found, key=lambda change: change.option))


def version_of(text: str) -> Version:
    """Parse Debezium's version as Connect returns it, ``3.6.0.Final``; return the newest for other text."""
    parts = text.split(".")[:2]
    return tuple(map(int, parts)) if len(parts) == 2 and all(part.isdecimal() for part in parts) else NEWEST


def masked(option: str, value: str | None) -> str | None:
    """Return a value, masked if it is a secret."""
    return MASK if value is not None and hides(option, value) else value


def _entries(difference: OptionDifference) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the entries that only the first and only the second list contains; empty if they are not lists."""
    before, after = difference.before, difference.after
    if not isinstance(before, tuple) or not isinstance(after, tuple) or not before or not after:
        return (), ()
    return (
        tuple(entry for entry in before if entry not in after),
        tuple(entry for entry in after if entry not in before),
    )


def _text(value: Value | None) -> str | None:
    return value if value is None or isinstance(value, str) else ", ".join(value)


def _config(options: Mapping[str, str], version: Version) -> Config:
    return Config(name=options.get("name", ""), options=options, locations=_Nowhere(), version=version)


class _Nowhere:
    """Locations of a configuration without a document: no lines."""

    def __call__(self, option: str) -> Location:
        return Location(document="connect", path=option)

    def path(self, option: str) -> Path:
        return (option,)
