"""``cdc-outbox contract``."""

from pathlib import Path

import click

from cdc_outbox.cli.files import write_new
from cdc_outbox.cli.groups import Group
from cdc_outbox.cli.options import new_file_option, read_spec
from cdc_outbox.contract_file import contract_json
from cdc_outbox.safe_text import safe_json


@click.group(cls=Group, short_help="Export what consumers must know of a pipeline.")
def contract() -> None:
    """Export what consumers must know of a pipeline.

    \b
    Example:
      cdc-outbox contract export connectors/orders.yaml > orders.contract.json
    """


@contract.command("export", short_help="Print the contract of a pipeline as JSON.")
@click.argument("spec", type=click.Path(path_type=Path))
@new_file_option
def export_contract(spec: Path, *, new_file: Path | None) -> None:
    """Print the contract of a pipeline as JSON: topics, aggregate types, sequence modes, headers and format.

    A consuming service reads the file with `load_contract("orders.contract.json")`; it needs neither the spec nor
    what the spec says of the database.

    \b
    Example:
      cdc-outbox contract export connectors/orders.yaml > orders.contract.json
    """
    write_new(f"{safe_json(contract_json(read_spec(spec).contract), indent=2)}\n", new_file)
