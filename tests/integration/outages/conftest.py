"""Servers that these tests may kill and pause: nothing else runs on them."""

import pytest

from cdc_outbox.testing import MariaDb, Stack


@pytest.fixture(scope="session")
def outbox_stack(outage_stack: Stack) -> Stack:
    return outage_stack


@pytest.fixture(scope="session")
def mariadb(outage_mariadb: MariaDb) -> MariaDb:
    return outage_mariadb
