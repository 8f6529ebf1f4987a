"""From a text to the configurations in it, whatever it is written in."""

from cdc_outbox.connect.lint.config import NEWEST, Config, Version
from cdc_outbox.connect.lint.reading import find_configs, is_config
from cdc_outbox.finding import Finding
from cdc_outbox.json_text import read_json


def find_in_text(text: str, *, name: str, version: Version = NEWEST) -> tuple[list[Config], list[Finding]]:
    """Return the configurations in a text, and what keeps it from having any; it never raises.

    Args:
        name: What findings call it. ``.json``, ``.yaml`` and ``.yml`` at its end say what it is; otherwise its first
            character does.
    """
    begins = text.lstrip("\ufeff \t\r\n")[:1] in {"{", "["}
    if name.endswith(".json") or (begins and not name.endswith((".yaml", ".yml"))):
        return find_configs(read_json(text, name=name), version)
    # JSON does without YAML, and both without the spec's JSON Schema, which takes longest to import.
    from cdc_outbox.yaml_text import read_yaml  # noqa: PLC0415

    document = read_yaml(text, name=name)
    if document.findings or is_config(document.content):
        return find_configs(document, version)
    from cdc_outbox.connect.lint.specs import spec_config  # noqa: PLC0415

    return spec_config(document, version)
