"""One option of a connector, as a spec decides it; and which options a spec may override."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cdc_outbox.debezium.options.lookup import reason_against
from cdc_outbox.errors import ConfigError
from cdc_outbox.redaction import is_secret
from cdc_outbox.spec import Spec


@dataclass(frozen=True, slots=True)
class RenderedOption:
    """An option, and the keys of the spec that decide it.

    Args:
        value: Empty where the spec leaves the option at its default.
        origins: Keys of the spec, with dots between their parts; the first is the one to change. None where the value
            is a constant, which every spec has.
    """

    name: str
    value: str = field(repr=False)
    origins: tuple[str, ...] = ()

    @property
    def is_secret(self) -> bool:
        """Whether its value must stay hidden; it is then a reference, or contains one."""
        return is_secret(self.name)


def option(name: str, value: str, *origins: str) -> RenderedOption:
    """Return an option that these keys decide."""
    return RenderedOption(name, value, origins)


def refuse_overrides(spec: Spec, options: Iterable[RenderedOption]) -> None:
    """Refuse overrides that would break a promise, or contradict one of these options.

    Raises:
        ConfigError: With ``findings``.
    """
    decided = {each.name for each in options if each.value}
    findings, first = [], ""
    for name, value in spec.overrides.items():
        reason = reason_against(name, value, decided)
        if reason:
            finding = spec.document.error("SP106", ("overrides", name), f"cannot be overridden: {reason}.")
            findings.append(finding)
            first = first or f"{finding.location}: {name} cannot be overridden: {reason}"
    if findings:
        raise ConfigError(first, field=findings[0].location.path, findings=tuple(findings))
