"""Specs to begin with, and what is wrong with others."""

from pathlib import Path

import pytest

from cdc_outbox import ConfigError
from cdc_outbox.spec import parse_spec

ORDERS = Path(__file__).parents[2] / "connectors" / "orders.yaml"

MINIMAL = """\
version: 1
name: orders
database:
  kind: postgresql
  host: localhost
  name: orders
  user: orders_connector
  password: ${env:PASSWORD}
aggregates:
  customer: {}
"""

MONGODB = """\
version: 1
name: orders
database:
  kind: mongodb
  connection_string: mongodb://mongo-1:27017,mongo-2:27017/?replicaSet=rs0
  name: orders
  user: orders_connector
  password: ${env:PASSWORD}
aggregates:
  customer: {}
"""


def findings(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_spec(text, name="x.yaml")
    return [str(finding) for finding in caught.value.findings]


def for_any_database(text: str) -> str:
    return text.replace("  name: orders\n", "  name: ${env:DATABASE}\n")
