"""From a text to the configurations in it, whatever it is written in."""

from dataclasses import replace
from typing import Any

from cdc_outbox.debezium.config import NEWEST, Config, Version
from cdc_outbox.debezium.lint.reading import find_configs, is_config
from cdc_outbox.finding import Finding
from cdc_outbox.text_files.document import Document
from cdc_outbox.text_files.json_text import read_json
from cdc_outbox.text_files.properties_text import looks_like_properties, read_properties

_SPEC_KEYS = frozenset({"version", "name", "database", "outbox", "aggregates", "topics", "overrides"})
_TAKEN = "lint reads a spec or Strimzi's KafkaConnector as YAML, a connector's configuration as JSON or properties too."
_TEMPLATE = "It looks like a template: lint what it renders, such as the output of `helm template`."


def is_json(text: str, name: str) -> bool:
    """Tell whether a text is meant to be JSON."""
    begins = text.lstrip("\ufeff \t\r\n")[:1] in {"{", "["}
    return name.endswith(".json") or (begins and not name.endswith((".yaml", ".yml")))


def is_properties(text: str, name: str) -> bool:
    """Tell whether a text is meant to be properties."""
    return name.endswith(".properties") or (
        not name.endswith((".json", ".yaml", ".yml")) and looks_like_properties(text)
    )


def read_text(text: str, *, name: str) -> Document:
    """Return the document that a text holds.

    Args:
        name: ``.json``, ``.yaml``, ``.yml`` and ``.properties`` at its end say what it is; otherwise its
            beginning does.
    """
    if is_properties(text, name):
        return read_properties(text, name=name)
    if is_json(text, name):
        return read_json(text, name=name)
    from cdc_outbox.text_files.yaml_text import read_yaml  # noqa: PLC0415

    return read_yaml(text, name=name, several=True)


def find_in_text(text: str, *, name: str, version: Version = NEWEST) -> tuple[list[Config], list[Finding]]:
    """Return the configurations in a text, and what keeps it from having any; it never raises.

    Args:
        name: What findings call it; as for :func:`read_text`.
    """
    document = read_text(text, name=name)
    if document.findings:
        remedy = _TEMPLATE if "{{" in text else ""
        return [], [replace(finding, remedy=finding.remedy or remedy) for finding in document.findings]
    if is_properties(text, name) or is_json(text, name) or is_config(document.content):
        return find_configs(document, version)
    if not _is_spec(document.content):
        message = "there is neither a spec nor a connector's configuration in it."
        return [], [document.error("CC003", (), message, _TEMPLATE if "{{" in text else _TAKEN)]
    # JSON does without YAML, and both without the spec's JSON Schema, which takes longest to import.
    from cdc_outbox.debezium.lint.specs import spec_config  # noqa: PLC0415

    return spec_config(document, version)


def _is_spec(content: Any) -> bool:  # noqa: ANN401 - what a document holds
    """Tell whether YAML is meant to be a spec of ours."""
    return isinstance(content, dict) and not _SPEC_KEYS.isdisjoint(content)
