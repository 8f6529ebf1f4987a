"""``cdc-outbox new``."""

from pathlib import Path

import click

from cdc_outbox.database import DatabaseKind
from cdc_outbox.errors import ConfigError
from cdc_outbox.event import SequenceMode
from cdc_outbox.skeleton import skeleton
from cdc_outbox.spec import parse_spec


def _aggregates(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, SequenceMode]:
    found: dict[str, SequenceMode] = {}
    for value in values:
        aggregate_type, colon, mode = value.rpartition(":")
        if not colon:
            aggregate_type, mode = value, SequenceMode.GAPLESS
        if not aggregate_type or mode not in set(SequenceMode) or aggregate_type in found:
            modes = "|".join(SequenceMode)
            raise click.BadParameter(f"{value!r} is not TYPE or TYPE:{modes}, each TYPE once")
        found[aggregate_type] = SequenceMode(mode)
    return found


@click.command("new", short_help="Write a commented spec to begin with.")
@click.argument("name")
@click.option(
    "--database",
    "kind",
    type=click.Choice([kind.value for kind in DatabaseKind]),
    required=True,
    help="What kind of database the outbox is in.",
)
@click.option(
    "--aggregate",
    "aggregates",
    multiple=True,
    callback=_aggregates,
    metavar="TYPE[:MODE]",
    help="An aggregate type that is written, numbered gapless (default), increasing or none; repeatable. "
    "Without it there is one, called NAME.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file that does not exist yet, not stdout.")
def new(name: str, *, kind: str, aggregates: dict[str, SequenceMode], output: Path | None) -> None:
    """Write the spec of the pipeline NAME, with a comment for every key, to standard output or a file.

    \b
    Examples:
      cdc-outbox new orders --database postgresql --aggregate customer -o connectors/orders.yaml
      cdc-outbox new metrics --database mariadb --aggregate reading:none
    """
    text = skeleton(name, DatabaseKind(kind), aggregates or {name: SequenceMode.GAPLESS})
    parse_spec(text, name=str(output or "stdout"))  # a name may be none
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{output} exists already", field="--output", hint="Choose another name.") from error
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}", field="--output") from error
    click.echo(f"wrote {output}", err=True)
