"""``cdc-outbox contexts``."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from cdc_outbox.cli.context_option import contexts_of, contexts_option
from cdc_outbox.cli.contexts import REFERENCE, Context, Contexts, urls_of
from cdc_outbox.cli.contexts_file import CONTEXTS_FILE, parse_contexts
from cdc_outbox.cli.contexts_trust import TrustedFiles
from cdc_outbox.cli.files import read_text
from cdc_outbox.cli.findings import API_VERSION
from cdc_outbox.cli.groups import Group
from cdc_outbox.cli.options import json_option
from cdc_outbox.cli.output import say
from cdc_outbox.safe_text import safe_json, visible


@click.group(
    cls=Group,
    short_help="List the places that commands can be told to go to.",
    invoke_without_command=True,
    params=[contexts_option],
)
@json_option("lines, or one JSON document")
@click.pass_context
def contexts(context: click.Context, *, prints_json: bool) -> None:
    """List the contexts of cdc-outbox.yaml, with what stands there and never what a reference leads to.

    The file is the one that --contexts names, cdc-outbox.yaml here once it is trusted, or cdc-outbox/contexts.yaml in
    the user's folder of configurations. An asterisk marks the context that counts where no other is named.

    \b
    Examples:
      cdc-outbox contexts
      cdc-outbox plan connectors/orders.yaml --context production
    """
    if context.invoked_subcommand is not None:
        return
    found = contexts_of(context)
    if prints_json:
        default = found.default
        items = [{"name": each.name, "default": each.name == default, **_told(each)} for each in _all(found.known)]
        say(safe_json({"apiVersion": API_VERSION, "kind": "Contexts", "contexts": items}, indent=2))
        return
    _show(found)
    say(f"from {found.path}" if found.path is not None else "there is no file of contexts", err=True)


@contexts.command()
@click.option("--revoke", is_flag=True, help="Trust the file no longer.")
def trust(*, revoke: bool) -> None:
    """Trust cdc-outbox.yaml of the working directory with its present content.

    Until then commands refuse it: its author chooses which hosts are addressed, and which variables and files go
    there. A change of the file ends the trust, and so does another path. A file that --contexts names, and the user's
    own, need none. The command shows what the file says.

    \b
    Examples:
      cdc-outbox contexts trust
      cdc-outbox contexts trust --revoke
    """
    path = Path(CONTEXTS_FILE).absolute()
    trusted = TrustedFiles(os.environ)
    if revoke:
        trusted.remove(path)
        say(visible(f"no longer trusted: {path}"), err=True)
        return
    text = read_text(path)
    found = parse_contexts(text, path, os.environ)
    _show(found)
    for context in _all(found.known):
        say(visible(f"  {context.name}  reads: {', '.join(_references(context.content)) or 'nothing'}"))
    trusted.add(path, text)
    say(visible(f"trusted until it changes: {path}"), err=True)


def _show(found: Contexts) -> None:
    for each in _all(found.known):
        told = "  ".join(f"{key}: {value}" for key, value in _told(each).items() if value)
        say(visible(f"{'*' if each.name == found.default else ' '} {each.name}  {told}"))


def _references(value: object) -> Iterator[str]:
    """Yield the references in a part of a context, such as ``${env:CONNECT_PASSWORD}``, each once."""
    yield from dict.fromkeys(found[0] for found in REFERENCE.finditer(safe_json(value)))


def _all(known: Mapping[str, Context]) -> list[Context]:
    return [known[name] for name in sorted(known)]


def _told(context: Context) -> dict[str, str]:
    connect = context.content.get("connect", {})
    return {
        "connect": ", ".join(urls_of(connect)) if connect else "",
        "login": next((kind for kind in ("basic", "bearer") if kind in connect), ""),
        "brokers": context.content.get("kafka", {}).get("bootstrap_servers", ""),
    }
