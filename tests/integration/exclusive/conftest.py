"""Servers that these tests may kill, pause and reconfigure: no other test uses them."""

import pytest

from cdc_outbox.testing import MariaDb, Stack


@pytest.fixture(scope="session")
def outbox_stack(exclusive_stack: Stack) -> Stack:
    return exclusive_stack


@pytest.fixture(scope="session")
def mariadb(exclusive_mariadb: MariaDb) -> MariaDb:
    return exclusive_mariadb
