"""The stack of docs/testing.md is started, as the page says."""

import os
from pathlib import Path
from typing import Any

from cdc_outbox.testing import Stack
from tests.support.pages import Page, run_script

PAGE = Page("docs/testing.md")


def test_the_pytest_fixture_as_the_page_says(outbox_stack: Stack) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(PAGE.block("# test_pipeline.py"), "testing.md", "exec"), namespace)  # noqa: S102 - our own page
    namespace["test_the_broker_is_real"](outbox_stack)


def test_a_stack_of_ones_own_as_the_page_says(server_folder: Path) -> None:
    # PostgreSQL alone, which is there in seconds; the whole stack comes up elsewhere.
    env = {"TMPDIR": str(server_folder), "CDC_OUTBOX_KAFKA": "false", "HOME": os.environ["HOME"]}
    up, env_of, *rest = PAGE.block("cdc-outbox stack up").splitlines()
    told = 'printf "%s\\n" "$ORDERS_DSN" "$SHIPPING_DSN" "$CDC_OUTBOX_DSN"'
    try:
        printed = run_script("\n".join([up, env_of, told, *rest]), server_folder, env)
    finally:
        run_script(rest[-1], server_folder, env)
    orders, shipping, first, status = printed.splitlines()
    assert first == orders != shipping
    assert status.split()[:2] == ["postgres", "running"]
    assert not list(server_folder.iterdir())
