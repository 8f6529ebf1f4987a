"""Read connector configurations from a document, in every supported form."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_outbox.debezium.config import NEWEST, Config, Version
from cdc_outbox.finding import Finding, Location
from cdc_outbox.text_files.document import Document, JsonValue, Path
from cdc_outbox.text_files.json_text import read_json
from cdc_outbox.text_files.properties_text import looks_like_properties, read_properties

_CLASS = "connector.class"
_SPEC_KEYS = frozenset({"version", "name", "database", "outbox", "aggregates", "topics", "overrides"})
_SUPPORTED = (
    "Lint reads specs and Strimzi KafkaConnectors in YAML, and connector configurations in YAML, JSON or properties."
)
_TEMPLATE = "The file looks like a template: lint its output, such as that of `helm template`."


def is_json(text: str, name: str) -> bool:
    """Return whether a text looks like JSON."""
    begins = text.lstrip("\ufeff \t\r\n")[:1] in {"{", "["}
    return name.endswith(".json") or (begins and not name.endswith((".yaml", ".yml")))


def is_properties(text: str, name: str) -> bool:
    """Return whether a text looks like properties."""
    return name.endswith(".properties") or (
        not name.endswith((".json", ".yaml", ".yml")) and looks_like_properties(text)
    )


def read_text(text: str, *, name: str) -> Document:
    """Return the document that a text holds.

    Args:
        name: ``.json``, ``.yaml``, ``.yml`` and ``.properties`` at its end decide the format; otherwise the text's
            beginning does.
    """
    if is_properties(text, name):
        return read_properties(text, name=name)
    if is_json(text, name):
        return read_json(text, name=name)
    from cdc_outbox.text_files.yaml_text import read_yaml  # noqa: PLC0415

    return read_yaml(text, name=name, several=True)


def find_in_text(
    text: str, *, name: str, version: Version = NEWEST, takes_specs: bool = True
) -> tuple[list[Config], list[Finding]]:
    """Return the configurations in a text, and what keeps it from having any; it never raises.

    Args:
        name: What findings call it; as for :func:`read_text`.
        takes_specs: Whether a spec counts as the configuration that it renders to.
    """
    document = read_text(text, name=name)
    if document.findings:
        remedy = _TEMPLATE if "{{" in text else ""
        return [], [replace(finding, remedy=finding.remedy or remedy) for finding in document.findings]
    if is_properties(text, name) or is_json(text, name) or is_config(document.content):
        return find_configs(document, version)
    if not _is_spec(document.content):
        message = "the file contains neither a spec nor a connector configuration."
        return [], [document.error("CC003", (), message, _TEMPLATE if "{{" in text else _SUPPORTED)]
    if not takes_specs:
        message = "the file is a spec, not a connector configuration."
        return [], [document.error("CC003", (), message, "`cdc-outbox render` prints the configuration of a spec.")]
    # JSON does without YAML, and both without the spec's JSON Schema, which takes longest to import.
    from cdc_outbox.debezium.render.spec_config import spec_config  # noqa: PLC0415

    return spec_config(document, version)


def _is_spec(content: JsonValue) -> bool:
    """Return whether YAML looks like a spec."""
    return isinstance(content, dict) and not _SPEC_KEYS.isdisjoint(content)


@dataclass(frozen=True, slots=True)
class InDocument:
    """The locations of a configuration's options in a document.

    Args:
        around: The path of the object that contains them.
        aliases: Paths of options at other places, or with other names.
    """

    document: Document
    around: Path
    aliases: Mapping[str, Path]

    def __call__(self, option: str) -> Location:
        """Return an option's location, or that of the object to which it belongs."""
        location = self.document.location(self.path(option))
        return Location(document=location.document, path=option, line=location.line)

    def path(self, option: str) -> Path:
        """Return an option's path, or the one that it would have."""
        return self.aliases.get(option, (*self.around, option))


def find_configs(document: Document, version: Version = NEWEST) -> tuple[list[Config], list[Finding]]:
    """Return the connector configurations in a document, and findings if it has none.

    It may be a flat configuration; an object with ``config``, as Connect's REST API takes and gives it; what that API
    answers to ``/connectors?expand=info``; a KafkaConnector of Strimzi, also in a ``List`` of Kubernetes; a list of
    these, or several documents of YAML. Other resources of Kubernetes beside a KafkaConnector are left out.
    """
    if document.findings:
        return [], list(document.findings)
    reader = _Reading(document, version)
    configs = list(reader.configs(document.content, ()))
    if not configs and not reader.findings:
        message, remedy = "the file contains no connector configuration.", "Set the option connector.class."
        reader.findings.append(document.error("CC003", (), message, remedy))
    return configs, reader.findings


def is_config(content: JsonValue) -> bool:
    """Return whether YAML contains connector configurations, and not a spec."""
    match content:
        case list():
            return any(map(is_config, content))
        case {"connector.class": _} | {"apiVersion": _} | {"config": dict()}:
            return True
        case dict():
            return any(isinstance(entry, dict) and "info" in entry for entry in content.values())
    return False


class _Reading:
    """One pass over one document."""

    def __init__(self, document: Document, version: Version) -> None:
        self._document = document
        self._version = version
        self.findings: list[Finding] = []

    def configs(self, content: JsonValue, path: Path) -> Iterator[Config]:
        match content:
            case list():
                for index, item in enumerate(content):
                    yield from self.configs(item, (*path, index))
            case {"kind": str(kind), "items": list() as items} if kind.endswith("List"):
                yield from self.configs(items, (*path, "items"))
            case {"kind": "KafkaConnector", "spec": {"config": dict() as options, **spec}, **resource}:
                yield self._strimzi(options, spec, resource, path)
            case {"connector.class": _}:
                yield self._config(content, path, {})
            case {"config": dict() as options}:
                yield self._config(options, (*path, "config"), content)
            case dict():
                for name, entry in content.items():
                    if isinstance(entry, dict) and isinstance(entry.get("info"), dict):
                        yield from self.configs(entry["info"], (*path, name, "info"))

    def _config(self, options: Mapping[str, Any], path: Path, around: Mapping[str, Any]) -> Config:
        texts = dict(self._texts(options, path))
        outside = around.get("name")
        aliases = {"name": (*path[:-1], "name")} if isinstance(outside, str) else {}
        name = outside if isinstance(outside, str) else texts.get("name", "")
        if "name" in texts and texts["name"] != name:
            message = f"the configuration has another name, {texts['name']!r}; Connect refuses two names."
            self.findings.append(self._document.error("CC005", (*path, "name"), message, "Remove the inner name."))
        locations = InDocument(self._document, path, aliases)
        return Config(name=name, options=texts, locations=locations, version=self._version)

    def _strimzi(self, options: JsonValue, spec: JsonValue, resource: JsonValue, path: Path) -> Config:
        within, meta = (*path, "spec"), resource.get("metadata")
        texts = dict(self._texts(options, (*within, "config")))
        aliases: dict[str, Path] = {"name": (*path, "metadata", "name")}
        for key, option in (("class", _CLASS), ("tasksMax", "tasks.max")):
            if isinstance(spec.get(key), str | int):
                texts[option], aliases[option] = str(spec[key]), (*within, key)
        name = meta.get("name") if isinstance(meta, dict) else ""
        locations = InDocument(self._document, (*within, "config"), aliases)
        return Config(name=str(name or ""), options=texts, locations=locations, version=self._version)

    def _texts(self, options: Mapping[str, Any], path: Path) -> Iterator[tuple[str, str]]:
        for option, value in options.items():
            match value:
                case bool():
                    yield option, "true" if value else "false"
                case str() | int() | float():
                    yield option, str(value)
                case None:
                    pass  # Connect treats null as an option that is not set.
                case _:
                    message = f"{option} must be text; Connect refuses lists and objects."
                    self.findings.append(self._document.error("CC004", (*path, option), message, "Write one text."))
