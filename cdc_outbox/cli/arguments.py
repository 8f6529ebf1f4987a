"""What commands are about: a SPEC where they need what it says, a NAME or its SPEC where Connect knows the rest."""

from pathlib import Path

import click

from cdc_outbox.cli.files import complete_file

_PATH = click.Path(path_type=Path)

spec_argument = click.argument("spec", type=_PATH, metavar="SPEC", help="The spec of a pipeline.")
specs_argument = click.argument(
    "paths",
    type=_PATH,
    nargs=-1,
    required=True,
    metavar="SPEC...",
    help="Specs of pipelines, and folders of them.",
)
optional_spec_argument = click.argument(
    "spec", type=_PATH, required=False, metavar="[SPEC]", help="The spec of a pipeline."
)
connector_argument = click.argument(
    "connector", metavar="NAME|SPEC", shell_complete=complete_file, help="A connector, by its name or by its spec."
)
_CONNECTORS = "Connectors, by name, by pattern such as 'orders-*', or by spec; a folder/ selects the specs in it"
connectors_argument = click.argument(
    "connectors",
    nargs=-1,
    required=True,
    metavar="NAME|PATTERN|SPEC...",
    shell_complete=complete_file,
    help=f"{_CONNECTORS}.",
)
optional_connectors_argument = click.argument(
    "connectors",
    nargs=-1,
    metavar="[NAME|PATTERN|SPEC]...",
    shell_complete=complete_file,
    help=f"{_CONNECTORS}. Default: all connectors.",
)
consumer_argument = click.argument(
    "target", metavar="MODULE:ATTRIBUTE", help="A Consumer or an AsyncConsumer; MODULE may be in the current folder."
)
