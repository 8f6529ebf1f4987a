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
from cdc_outbox.errors import ConfigError
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


@click.command("new")
@click.argument("name", metavar="NAME", help="The name of the pipeline and of its connector.")
@click.option(
    "--database",
    "kind",
    type=_Kind([kind.value for kind in DatabaseKind]),
    default=DatabaseKind.POSTGRESQL.value,
    show_default=True,
    help="The kind of the outbox's database.",
)
@aggregate_type_option("Default MODE: gapless. Default TYPE: NAME.")
@new_file_option
def new(name: str, *, kind: str, aggregates: dict[str, SequenceMode | None], new_file: Path | None) -> None:
    """Create a commented spec.

    The spec of the pipeline NAME is written to standard output or a file, with a comment for every key.

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
    _refuse_invalid(text)
    write_new(text, new_file)
    if new_file is not None:
        say("next:", err=True)
        for command in next_commands(DatabaseKind(kind)):
            name, _, option = command.partition(" ")
            say(f"  cdc-outbox {' '.join(filter(None, (name, shlex.quote(str(new_file)), option)))}", err=True)


def _refuse_invalid(text: str) -> None:
    """Refuse arguments that make an invalid spec, such as a name with a blank.

    Raises:
        ConfigError: They do; the lines of a spec that is not written are left out.
    """
    try:
        parse_spec(text)
    except ConfigError as error:
        messages = (f"{each.message} {each.remedy}".strip().removesuffix(".") for each in error.findings)
        raise ConfigError("; ".join(messages), field=error.field, hint="Correct the arguments.") from error


def _settings(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not name or not equals or not text or name in found:
            raise click.BadParameter("must be NAME=VALUE, each NAME once")
        found[name] = text
    return found


_KNOWN = " ".join(
    f"For {target.name}: {', '.join(f'{name}=VALUE ({meaning})' for name, meaning in target.settings.items())}."
    for target in TARGETS.values()
    if target.settings
)


@click.command("render")
@spec_argument
@click.option(
    "--target",
    metavar="|".join(TARGETS),
    default="kafka-connect",
    show_default=True,
    help="The system that runs the connector.",
)
@click.option(
    "--target-option",
    "settings",
    multiple=True,
    callback=_settings,
    metavar="NAME=VALUE",
    help=f"A setting of the target; repeatable. {_KNOWN}",
)
def render_connector(spec: Path, *, target: str, settings: dict[str, str]) -> None:
    """Print the connector configuration of a spec.

    For kafka-connect, the output is the JSON configuration for Connect; references to secrets are not resolved. For
    strimzi, it is KafkaConnector and KafkaTopic resources, and a Secret to fill in. If a target cannot express
    something, the command fails with the reason.

    \b
    Examples:
      cdc-outbox render connectors/orders.yaml | jq .
      cdc-outbox render connectors/orders.yaml --target strimzi --target-option connect=my-connect
    """
    deploy_target = chosen(TARGETS, target, settings)
    say(deploy_target.render(pipeline_of(read_spec(spec)), settings).rstrip("\n"), script=True)


@click.command("spec-schema")
@click.option("--page", "as_page", is_flag=True, help="Print every key with type, default and reason, as Markdown.")
def print_schema(*, as_page: bool) -> None:
    """Print the JSON Schema (2020-12) of specs, for editors.

    Editors with yaml-language-server complete keys and values if the spec names the schema: `# yaml-language-server:
    $schema=spec.schema.json`.

    \b
    Example:
      cdc-outbox spec-schema > connectors/spec.schema.json
    """
    if as_page:
        say(page(), nl=False)
    else:
        say(safe_json(spec_schema(), indent=2))


@click.group(cls=Group)
def contract() -> None:
    """Export the contract of a pipeline for consumers.

    \b
    Example:
      cdc-outbox contract export connectors/orders.yaml > orders.contract.json
    """


@contract.command("export")
@spec_argument
@new_file_option
def export_contract(spec: Path, *, new_file: Path | None) -> None:
    """Print the contract of a pipeline as JSON.

    The contract has topics, aggregate types, sequence modes, headers and format. A consuming service reads the file
    with `load_contract("orders.contract.json")`; it needs no spec, and no information about the database.

    \b
    Example:
      cdc-outbox contract export connectors/orders.yaml > orders.contract.json
    """
    write_new(f"{safe_json(contract_json(read_spec(spec).contract), indent=2)}\n", new_file)
