"""What ``docs/`` shows of tests and of a contract is executed, as it stands there."""

import os
import re
import shlex
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import click
import psycopg
import pytest

from cdc_outbox import (
    Event,
    ForeignOutbox,
    Outbox,
    PayloadType,
    TableNotFoundError,
    TransactionConflictError,
    WireContract,
)
from cdc_outbox.cli import cli
from cdc_outbox.consumer.item import item_of
from cdc_outbox.consumer.parked_events import Reason
from cdc_outbox.message import Message

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
WRITING, CONSUMING = ((DOCS / name).read_text() for name in ("writing.md", "consuming.md"))


BLOCKS = re.findall(r"^```python\n(.*?)^```$", WRITING, re.MULTILINE | re.DOTALL)


class OrderRefusedError(Exception):
    """A service's own error."""


def place_order(connection: Any, outbox: Outbox, *, customer: int) -> None:
    """Write the event first, so that the refusal has something to take back."""
    outbox.add(connection, Event(aggregate_type="customer", aggregate_id=str(customer), type="OrderPlaced", payload={}))
    if customer == 13:
        raise OrderRefusedError


def test_no_page_says_that_a_consumer_stops_where_it_parks() -> None:
    package = DOCS.parent / "cdc_outbox"
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md"), *(package / "cli").glob("*.py")]
    stops = re.compile(r"stops? at (a|the) (gap|conflict)|without it a message that says no type stops", re.IGNORECASE)
    assert [page.name for page in pages if stops.search(" ".join(page.read_text().split()))] == []


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors_of(linked), target


def test_the_readme_links_to_every_page() -> None:
    readme = (DOCS.parent / "README.md").read_text()
    missing = [page.name for page in DOCS.rglob("*.md") if f"({page.relative_to(DOCS.parent)}" not in readme]
    assert missing == []


def test_the_first_screen_of_the_readme_names_the_commands_of_a_fresh_checkout() -> None:
    root = DOCS.parent
    first = "\n".join((root / "README.md").read_text().splitlines()[:25])
    for command in ("./infra/demo", "./infra/test"):
        assert f"`{command}`" in first
        script = root / command
        assert os.access(script, os.X_OK)
        assert "\ninfra/setup" in script.read_text()


def shown_commands(page: Path) -> list[list[str]]:
    """Return the words of each `cdc-outbox` command in the blocks of a page."""
    blocks = "".join(
        re.findall(r"^ *```(?:sh|text|console)?\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    )
    lines = re.findall(r"^ *(?:\$ )?cdc-outbox (.+)$", blocks.replace("\\\n", " "), re.MULTILINE)
    return [shlex.split(re.split(r" [|<>] | 2> ", line)[0], comments=True) for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_shown_command_has_the_options_that_are_shown(page: Path) -> None:
    for words in shown_commands(page):
        command: click.Command = cli
        context = click.Context(cli, **cli.context_settings)
        for word in words:
            if not isinstance(command, click.Group) or (inner := command.get_command(context, word)) is None:
                break
            command = inner
        options = {option for parameter in command.params for option in parameter.opts}
        assert not isinstance(command, click.Group), words
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options, words


def test_commands_are_shown() -> None:
    assert len([words for page in PAGES for words in shown_commands(page)]) > 90


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_file_of_this_project_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:tests|infra|benchmarks|fuzz)/[\w./-]+)`", page.read_text())
    assert [path for path in named if not (DOCS.parent / path).exists()] == []


def test_a_shown_curl_prints_the_answer_to_a_refused_request() -> None:
    shown = [line for page in DOCS.rglob("*.md") for line in page.read_text().splitlines() if "curl " in line]
    assert shown
    assert all("--fail-with-body" in line for line in shown)


def test_the_unit_tests_that_are_shown_pass() -> None:
    [block] = [block for block in BLOCKS if "MemoryOutbox" in block]
    names: dict[str, Any] = {
        "OrderRefusedError": OrderRefusedError,
        "place_order": place_order,
    }
    exec(block, names)  # noqa: S102 - the documentation's own
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


def test_the_retry_that_is_shown_tries_again_what_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    [block] = [block for block in BLOCKS if "def in_transaction(" in block]
    names: dict[str, Any] = {}
    exec(block, names)  # noqa: S102 - the documentation's own
    monkeypatch.setattr(psycopg, "connect", nullcontext)
    for error, tries in ((TransactionConflictError("deadlock"), 3), (TableNotFoundError("no such table"), 1)):
        work = Mock(side_effect=error)
        with pytest.raises(type(error)):
            names["in_transaction"]("the DSN", work)
        assert work.call_count == tries
    work = Mock(side_effect=[TransactionConflictError("deadlock"), None])
    names["in_transaction"]("the DSN", work)
    assert work.call_count == 2


def foreign_outbox() -> tuple[WireContract, list[Message]]:
    """Return the contract that is shown, and the message of each line of its table."""
    section = CONSUMING[CONSUMING.index("## Messages of a foreign outbox") :]
    names: dict[str, Any] = {}
    [block] = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    exec(block, names)  # noqa: S102 - the documentation's own
    table = section[section.index("| key, a header | value | written by |") :].split("\n\n")[0]
    rows = [[cell.strip().strip("`") for cell in line.split("|")[1:3]] for line in table.splitlines()[2:]]
    schema = '{"type":"string"}'
    return names["contract"], [
        Message(
            topic="outbox.event.order",
            key=(key or "42").replace("{…}", schema).encode(),
            value=value.replace("{…}", schema).replace("…", '"x"').encode(),
            headers=(("id", b"1"),),
            timestamp_ms=1_800_000_000_000,
        )
        for key, value in rows
    ]


def test_the_contract_of_a_foreign_outbox_that_is_shown_reads_every_line_of_its_table() -> None:
    contract, messages = foreign_outbox()
    assert len(messages) == 6
    for message in messages:
        event = contract.event_of(message)
        assert (event.aggregate_type, event.aggregate_id, event.payload) == ("order", "42", {"total": 10})


def test_messages_of_a_foreign_outbox_without_a_type_or_a_key_are_parked_as_unreadable() -> None:
    contract, messages = foreign_outbox()
    untyped = messages[:4]  # the envelope and the CloudEvent behind them have types
    avro = replace(messages[0], value=b"\x00\x00\x00\x00\x01\x14")
    unread = [item_of(message, replace(contract, foreign=ForeignOutbox())) for message in untyped]
    unread += [item_of(message, contract) for message in (replace(messages[0], key=None), avro)]
    assert len(unread) == 6
    assert [item.failure and item.failure.reason for item in unread] == [Reason.UNREADABLE] * len(unread)
    as_bytes = replace(contract, payload_type=PayloadType.BYTES)
    assert item_of(avro, as_bytes).event.payload == avro.value
