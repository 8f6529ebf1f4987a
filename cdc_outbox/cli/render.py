"""``cdc-outbox render``."""

from pathlib import Path

import click

from cdc_outbox.cli.options import read_spec
from cdc_outbox.cli.output import say
from cdc_outbox.connect.targets import TARGETS, chosen, pipeline_of


def _settings(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not name or not equals or not text or name in found:
            raise click.BadParameter("is NAME=VALUE, each NAME once")
        found[name] = text
    return found


_KNOWN = "; ".join(
    f"{target.name}: {name}, {meaning}" for target in TARGETS.values() for name, meaning in target.settings.items()
)


@click.command("render", short_help="Print the configuration that a spec becomes.")
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "--target",
    metavar="|".join(TARGETS),
    default="kafka-connect",
    show_default=True,
    help="Where the configuration goes.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=_settings,
    metavar="NAME=VALUE",
    help=f"What the target must know beside. {_KNOWN}.",
)
def render_connector(spec: Path, *, target: str, settings: dict[str, str]) -> None:
    """Print the connector's configuration as Connect gets it, references unresolved; or as another target takes it.

    For strimzi these are the resources KafkaConnector and KafkaTopic and a Secret to be filled in. What a target cannot
    express is refused with the reason.

    \b
    Examples:
      cdc-outbox render connectors/orders.yaml | jq .
      cdc-outbox render connectors/orders.yaml --target strimzi --set connect=my-connect --set kafka=my-cluster
    """
    place = chosen(TARGETS, target, settings)
    say(place.render(pipeline_of(read_spec(spec)), settings).rstrip("\n"), script=True)
