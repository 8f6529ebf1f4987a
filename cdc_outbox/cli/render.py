"""``cdc-outbox render``."""

import json
from pathlib import Path

import click

from cdc_outbox.cli.options import read_spec
from cdc_outbox.connect.render import render


@click.command("render", short_help="Print the configuration that a spec becomes.")
@click.argument("spec", type=click.Path(path_type=Path))
def render_connector(spec: Path) -> None:
    """Print the connector's configuration as Connect gets it, references unresolved.

    \b
    Example:
      cdc-outbox render connectors/orders.yaml | jq .
    """
    click.echo(json.dumps(render(read_spec(spec)), indent=2, ensure_ascii=False))
