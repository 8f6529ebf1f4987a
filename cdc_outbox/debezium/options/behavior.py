"""Knowledge about an option beyond what its plugin reports: which promise it breaks, and what changing it does."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial

from cdc_outbox.finding import Severity

Value = str | tuple[str, ...]
"""An option's value in the one way in which it is compared: a list's entries are sorted."""

Condition = Callable[[Value | None, Value | None], bool]
"""Whether something holds of a change, by the values before and after; ``None`` stands for the default."""


class ImpactLevel(StrEnum):
    """How far a change goes."""

    CONNECTOR = "connector"
    """Consumers see nothing but a pause of seconds while the task restarts."""
    MESSAGES = "messages"
    """Messages written from now on are others, or may be; consumers must take both."""
    DANGEROUS = "dangerous"
    """Events would be left out, come twice, go elsewhere or lose their order: only with ``--replace``."""


def _always(_before: Value | None, _after: Value | None) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Impact:
    """What a change of an option does to who reads the events, in one sentence.

    Args:
        remedy: What to do about it; empty where nothing has to be done.
        when: Of which changes.
    """

    level: ImpactLevel
    text: str
    remedy: str = ""
    when: Condition = _always


SETTLE_FIRST = "Resolve this before you deploy the spec."

connector = partial(Impact, ImpactLevel.CONNECTOR)
messages = partial(Impact, ImpactLevel.MESSAGES)
dangerous = partial(Impact, ImpactLevel.DANGEROUS)


@dataclass(frozen=True, slots=True)
class Promise:
    """What an option may not become.

    Args:
        reason: What would happen; completes "…: ".
        code: Of the finding in any configuration, empty if the option is a hazard in an override only.
        kept_by: The values that break nothing; without any, the option itself breaks it.
    """

    reason: str
    code: str = ""
    severity: Severity = Severity.ERROR
    kept_by: frozenset[str] = field(default_factory=frozenset)


class OptionBehavior:
    """The known behavior of some options, and of every option below them.

    Args:
        names: In full, by today's name; a transform's has its class in the alias's place, and ``<group>`` stands for
            any name.
        default: The default, where no plugin tells a worker of it.
        promise: What they may not become; the spec decides it, so an override is refused whatever its value.
        override: Why an override may not have a value, empty if it may; of options that a spec may override.
        changed: What a change of a running connector does; the first that fits.
        adopted: What becomes of it where a spec takes a connector over; the first that fits. Completes a sentence that
            begins with the option.
    """

    def __init__(
        self,
        *names: str,
        default: str | None = None,
        promise: Promise | None = None,
        override: Callable[[str], str] | None = None,
        changed: Impact | tuple[Impact, ...] = (),
        adopted: Impact | tuple[Impact, ...] = (),
    ) -> None:
        self.names, self.default, self.promise, self.override = names, default, promise, override
        self.changed = (changed,) if isinstance(changed, Impact) else changed
        self.adopted = (adopted,) if isinstance(adopted, Impact) else adopted

    def covers(self, option: str) -> bool:
        """Return whether an option is one of these, or belongs to it."""
        return any(_covers(name, option) for name in self.names)


def _covers(name: str, option: str) -> bool:
    if "<" in name:
        return _pattern(name).fullmatch(option) is not None
    return option == name or option.startswith(name if name.endswith(".") else f"{name}.")


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace("<group>", ".+"))


def unset(before: Value | None, _after: Value | None) -> bool:
    """Return whether an option was at its default."""
    return before is None


def between(least: int, most: int, otherwise: str) -> Callable[[str], str]:
    """Return why an override is no number between two, or nothing if it is."""

    def reason(value: str) -> str:
        fits = re.fullmatch(r"[0-9]{1,9}", value) and least <= int(value) <= most
        return "" if fits else f"it must be a number from {least} to {most:,}; {otherwise}"

    return reason


def router(*options: str) -> tuple[str, ...]:
    """Return the full names of the router's own options, of rows and of documents."""
    return tuple(f"transforms.{name}.{option}" for name in ("EventRouter", "MongoEventRouter") for option in options)
