"""What ``docs/`` shows of tests and of a contract is executed, as it stands there."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

from cdc_outbox import Event, Outbox, TableNotFoundError, TransactionConflictError
from cdc_outbox.message import Message

DOCS = Path(__file__).parents[2] / "docs"
WRITING, CONSUMING = ((DOCS / name).read_text() for name in ("writing.md", "consuming.md"))


BLOCKS = re.findall(r"^```python\n(.*?)^```$", WRITING, re.MULTILINE | re.DOTALL)


class OrderRefusedError(Exception):
    """A service's own error."""


def place_order(connection: Any, outbox: Outbox, *, customer: int) -> None:
    """Write the event first, so that the refusal has something to take back."""
    outbox.add(connection, Event(aggregate_type="customer", aggregate_id=str(customer), type="OrderPlaced", payload={}))
    if customer == 13:
        raise OrderRefusedError


def test_what_users_read_is_said_in_plain_words() -> None:
    package = DOCS.parent / "cdc_outbox"
    read = [*DOCS.rglob("*.md"), *(package / "debezium" / "explanations").glob("*.md"), *(package / "cli").glob("*.py")]
    read += [DOCS.parent / "README.md", package / "spec" / "spec.schema.json"]
    words = re.compile(r"(?<!`)\b(somebody|nobody|whoever|shall)\b", re.IGNORECASE)  # `nobody` is a user
    found = [f"{page.name}: {line}" for page in read for line in page.read_text().splitlines() if words.search(line)]
    assert found == []


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


def test_the_contract_of_a_foreign_outbox_that_is_shown_reads_every_line_of_its_table() -> None:
    section = CONSUMING[CONSUMING.index("## Messages of a foreign outbox") :]
    names: dict[str, Any] = {}
    [block] = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    exec(block, names)  # noqa: S102 - the documentation's own
    table = section[section.index("| key, a header | value | written by |") :].split("\n\n")[0]
    rows = [[cell.strip().strip("`") for cell in line.split("|")[1:3]] for line in table.splitlines()[2:]]
    assert len(rows) == 6
    for key, value in rows:
        told = value.replace("{…}", '{"type":"string"}').replace("…", '"x"')
        headers = (("id", b"1"),)
        message = Message(
            topic="outbox.event.order",
            key=(key or "42").replace("{…}", '{"type":"string"}').encode(),
            value=told.encode(),
            headers=headers,
            timestamp_ms=1_800_000_000_000,
        )
        event = names["contract"].event_of(message)
        assert (event.aggregate_type, event.aggregate_id, event.payload) == ("order", "42", {"total": 10})
