"""``cdc-outbox contexts``."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.context_option import contexts_of, contexts_option
from cdc_outbox.cli.contexts import REFERENCE, Context, Contexts, urls_of
from cdc_outbox.cli.contexts_file import CONTEXTS_FILE, TrustedFiles, parse_contexts
from cdc_outbox.cli.groups import Group
from cdc_outbox.cli.options import json_option
from cdc_outbox.cli.output import document, say
from cdc_outbox.redaction import safe_json, visible
from cdc_outbox.text_files.document import read_text_file


@click.group(
    cls=Group,
    invoke_without_command=True,
    params=[contexts_option],
)
@json_option()
@click.pass_context
def contexts(context: click.Context, *, prints_json: bool) -> None:
    """List the contexts of cdc-outbox.yaml.

    References are shown as written; the values behind them are never read. The command reads the file that --contexts
    names. Without --contexts, it reads cdc-outbox.yaml in the current folder, which must be trusted; if there is none,
    it reads cdc-outbox/contexts.yaml in the user's configuration folder. An asterisk marks the default context.

    \b
    Examples:
      cdc-outbox contexts
      cdc-outbox plan connectors/orders.yaml --context production
    """
    if context.invoked_subcommand is not None:
        return
    found = contexts_of(context)
    if prints_json:
        say(document("Contexts", {"contexts": _items(found)}))
        return
    _show(found)
    say(f"from {found.path}" if found.path is not None else "there is no file of contexts", err=True)


@contexts.command()
@click.option("--revoke", is_flag=True, help="Revoke the trust.")
@json_option()
def trust(*, revoke: bool, prints_json: bool) -> None:
    """Trust the cdc-outbox.yaml of the current folder.

    Commands refuse an untrusted file, because its author chooses which hosts are contacted and which variables and
    files are sent to them. Trust ends when the file changes or moves. A file named by --contexts and the user's own
    file need no trust. The command shows the contents of the file.

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
        if prints_json:
            say(document("Trust", {"path": str(path), "isTrusted": False}))
        return
    text = read_text_file(path)
    found = parse_contexts(text, path, os.environ)
    _show(found, err=prints_json)
    for context in _all(found.known):
        reads = ", ".join(_references(context.content)) or "nothing"
        say(visible(f"  {context.name}  reads: {reads}"), err=prints_json)
    trusted.add(path, text)
    say(visible(f"trusted until it changes: {path}"), err=True)
    if prints_json:
        say(document("Trust", {"path": str(path), "isTrusted": True, "contexts": _items(found)}))


def _items(found: Contexts) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "default": each.name == found.default,
            **_addresses(each),
            "reads": [*_references(each.content)],
        }
        for each in _all(found.known)
    ]


def _show(found: Contexts, *, err: bool = False) -> None:
    for each in _all(found.known):
        addresses = "  ".join(f"{key}: {value}" for key, value in _addresses(each).items() if value)
        say(visible(f"{'*' if each.name == found.default else ' '} {each.name}  {addresses}"), err=err)


def _references(value: object) -> Iterator[str]:
    """Yield the references in a part of a context, such as ``${env:CONNECT_PASSWORD}``, each once."""
    yield from dict.fromkeys(found[0] for found in REFERENCE.finditer(safe_json(value)))


def _all(known: Mapping[str, Context]) -> list[Context]:
    return [known[name] for name in sorted(known)]


def _addresses(context: Context) -> dict[str, str]:
    connect = context.content.get("connect", {})
    return {
        "connect": ", ".join(urls_of(connect)) if connect else "",
        "login": next((kind for kind in ("basic", "bearer") if kind in connect), ""),
        "brokers": context.content.get("kafka", {}).get("bootstrap_servers", ""),
    }
