"""``cdc-outbox spec-schema``."""

import click

from cdc_outbox.cli.output import say
from cdc_outbox.reference import page
from cdc_outbox.safe_text import safe_json
from cdc_outbox.spec import spec_schema


@click.command("spec-schema", short_help="Print the JSON Schema of specs, for editors.")
@click.option("--page", "as_page", is_flag=True, help="Print every key with type, default and reason, as Markdown.")
def print_schema(*, as_page: bool) -> None:
    """Print the JSON Schema (2020-12) that specs are checked by.

    Editors with yaml-language-server complete keys and values by it where a spec names it:
    `# yaml-language-server: $schema=spec.schema.json`.

    \b
    Example:
      cdc-outbox spec-schema > connectors/spec.schema.json
    """
    if as_page:
        say(page(), nl=False)
    else:
        say(safe_json(spec_schema(), indent=2))
