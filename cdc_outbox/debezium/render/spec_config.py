"""A spec as the rules see it: rendered, with every option's place in the YAML that it came from."""

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_outbox.debezium.config import NEWEST, Config, Version
from cdc_outbox.debezium.render import origins_of, refuse_file, render
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import Finding, Location, Severity
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.text_files.document import Document, Path


@dataclass(frozen=True, slots=True)
class _InSpec:
    document: Document
    origins: Mapping[str, tuple[str, ...]]

    def __call__(self, option: str) -> Location:
        return self.document.location(self.path(option))

    def path(self, option: str) -> Path:
        """Return the path of a key that decides an option, one that is there if any is; or that of its override."""
        paths: list[Path] = [tuple(key.split(".")) for key in self.origins.get(option, ())]
        paths.append(("overrides", option))
        return next((path for path in paths if path in self.document.lines), paths[0])


def rendered_config(spec: Spec, version: Version = NEWEST) -> Config:
    """Return the configuration that a spec becomes.

    Raises:
        ConfigError: As :func:`cdc_outbox.debezium.render.render` does.
    """
    return Config(
        name=spec.name,
        options=render(spec),
        locations=_InSpec(spec.document, origins_of(spec)),
        version=version,
        expands_shapes=spec.database.kind.has_dialect,
    )


def spec_config(document: Document, version: Version = NEWEST) -> tuple[list[Config], list[Finding]]:
    """Return the configuration that a spec becomes, or what keeps it from becoming one."""
    try:
        spec = parse_spec(document)
    except ConfigError as error:
        return [], list(error.findings)
    try:
        refuse_file(spec)
    except ConfigError as error:
        location = document.location(("database", "kind"))
        return [], [Finding(code="SP108", severity=Severity.NOTE, location=location, message=f"{error}.")]
    try:
        return [rendered_config(spec, version)], []
    except ConfigError as error:
        return [], list(error.findings)
