"""``cdc-outbox contexts``."""

import json
from collections.abc import Mapping

import click

from cdc_outbox.cli.contexts import Context, urls_of
from cdc_outbox.cli.contexts_file import read_contexts
from cdc_outbox.cli.findings import API_VERSION, visible


@click.command(short_help="List the places that commands can be told to go to.")
@click.option("--json", "as_json", is_flag=True, help="Print one document instead of lines.")
def contexts(*, as_json: bool) -> None:
    """List the contexts of cdc-outbox.yaml, with what stands there and never what a reference leads to.

    The file is the one that CDC_OUTBOX_CONTEXTS names, cdc-outbox.yaml here, or cdc-outbox/contexts.yaml in the user's
    folder of configurations. An asterisk marks the one that counts where no other is named.

    \b
    Examples:
      cdc-outbox contexts
      cdc-outbox plan connectors/orders.yaml --context production
    """
    found = read_contexts()
    if as_json:
        default = found.default
        items = [{"name": each.name, "default": each.name == default, **_told(each)} for each in _all(found.known)]
        click.echo(json.dumps({"apiVersion": API_VERSION, "kind": "Contexts", "contexts": items}, indent=2))
        return
    for each in _all(found.known):
        told = "  ".join(f"{key}: {value}" for key, value in _told(each).items() if value)
        click.echo(visible(f"{'*' if each.name == found.default else ' '} {each.name}  {told}"))
    click.echo(f"from {found.path}" if found.path is not None else "there is no file of contexts", err=True)


def _all(known: Mapping[str, Context]) -> list[Context]:
    return [known[name] for name in sorted(known)]


def _told(context: Context) -> dict[str, str]:
    connect = context.content.get("connect", {})
    return {
        "connect": ", ".join(urls_of(connect)) if connect else "",
        "login": next((kind for kind in ("basic", "bearer") if kind in connect), ""),
        "brokers": context.content.get("kafka", {}).get("bootstrap_servers", ""),
    }
