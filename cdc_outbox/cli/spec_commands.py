"""``cdc-outbox new``, ``render``, ``spec-schema`` and ``contract``."""

import shlex
from pathlib import Path

import click

from cdc_outbox.cli.arguments import spec_argument
from cdc_outbox.cli.files import write_new
from cdc_outbox.cli.groups import Group
from cdc_outbox.cli.options import aggregate_type_option, new_file_option, read_spec
from cdc_outbox.cli.output import say
from cdc_outbox.contract.contract_file import contract_json
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.render.targets import TARGETS, chosen, pipeline_of
from cdc_outbox.event import SequenceMode
from cdc_outbox.redaction import safe_json
from cdc_outbox.spec import parse_spec, spec_schema
from cdc_outbox.spec.reference import page
from cdc_outbox.spec.template import next_commands, template
from cdc_outbox.text_files.document import did_you_mean


class _Kind(click.Choice[str]):
    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return click's message, with the nearest kind."""
        offer = did_you_mean(str(value), list(self.choices))
        return f"{super().get_invalid_choice_message(value, ctx)} {offer}".rstrip()


@click.command("new", short_help="Write a commented spec to begin with.")
@click.argument("name", metavar="NAME", help="The pipeline's name, which its connector has too.")
@click.option(
    "--database",
    "kind",
    type=_Kind([kind.value for kind in DatabaseKind]),
    default=DatabaseKind.POSTGRESQL.value,
    show_default=True,
    help="The kind of the outbox's database.",
)
@aggregate_type_option("By default gapless. Without it there is one type, called NAME.")
@new_file_option
def new(name: str, *, kind: str, aggregates: dict[str, SequenceMode | None], new_file: Path | None) -> None:
    """Write the spec of the pipeline NAME, with a comment for every key, to standard output or a file.

    \b
    Examples:
      cdc-outbox new orders --file connectors/orders.yaml
      cdc-outbox new orders --database postgresql --aggregate-type customer --file connectors/orders.yaml
      cdc-outbox new metrics --database mariadb --aggregate-type reading:none
    """
    text = template(
        name,
        DatabaseKind(kind),
        {key: mode or SequenceMode.GAPLESS for key, mode in (aggregates or {name: None}).items()},
    )
    parse_spec(text, name=str(new_file or "stdout"))  # a name may be none
    write_new(text, new_file)
    if new_file is not None:
        say("next:", err=True)
        for command in next_commands(DatabaseKind(kind)):
            name, _, option = command.partition(" ")
            say(f"  cdc-outbox {' '.join(filter(None, (name, shlex.quote(str(new_file)), option)))}", err=True)


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
@spec_argument
@click.option(
    "--target",
    metavar="|".join(TARGETS),
    default="kafka-connect",
    show_default=True,
    help="Where the configuration goes.",
)
@click.option(
    "--target-option",
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
      cdc-outbox render connectors/orders.yaml --target strimzi --target-option connect=my-connect
    """
    deploy_target = chosen(TARGETS, target, settings)
    say(deploy_target.render(pipeline_of(read_spec(spec)), settings).rstrip("\n"), script=True)


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


@click.group(cls=Group, short_help="Export what consumers must know of a pipeline.")
def contract() -> None:
    """Export what consumers must know of a pipeline.

    \b
    Example:
      cdc-outbox contract export connectors/orders.yaml > orders.contract.json
    """


@contract.command("export", short_help="Print the contract of a pipeline as JSON.")
@spec_argument
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
