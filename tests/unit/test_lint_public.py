"""Configurations that others published and run: no errors; what is warned of is listed, and why."""

import json

import pytest

from cdc_outbox.debezium.config_texts import find_in_text
from cdc_outbox.debezium.lint import lint
from cdc_outbox.finding import Severity
from tests.support.configs import PUBLIC_CONFIGS

_DEFAULTS = {
    "CC601",  # plugin.name is left out, and the image brings decoderbufs
    "CC602",  # slot.name is left out
    "CC604",  # publication.name is left out
    "CC605",  # publication.autocreate.mode is left out, and the user is a superuser
    "CC607",  # heartbeat.interval.ms is left out
}

WARNED: dict[str, set[str]] = {
    "mariadb": {"CC710"},
    "mongodb": {"CC113"},  # user and password stand in the connection string
    "mysql-flat": {"CC226"},  # the transform's drop.tombstones is gone
    "oracle": set(),
    "postgresql-cloudevents": _DEFAULTS - {"CC602"},
    "postgresql-failover": _DEFAULTS - {"CC601"},
    "postgresql-many-tables": _DEFAULTS,
    "postgresql-outbox": _DEFAULTS | {"CC401", "CC402"},  # converters are the worker's
    "postgresql-outbox-bytes": _DEFAULTS | {"CC317"},  # the key is the event's id
    "postgresql-outbox-text": _DEFAULTS,
    "postgresql-signals": _DEFAULTS,
    "sqlserver-replica": set(),
}


def test_there_are_more_than_ten_of_different_shape_and_known_address() -> None:
    found = {path.stem: json.loads(path.read_text()) for path in PUBLIC_CONFIGS.glob("*.json")}
    assert set(found) == set(WARNED)
    assert len({content["shape"] for content in found.values()}) == len(found) > 10
    assert all(content["address"].startswith("https://github.com/") for content in found.values())


@pytest.mark.parametrize("name", WARNED)
def test_what_others_run_has_no_errors(name: str) -> None:
    [config], refused = find_in_text((PUBLIC_CONFIGS / f"{name}.json").read_text(), name=f"{name}.json")
    found = lint(config)
    assert refused == []
    assert [finding for finding in found if finding.severity is Severity.ERROR] == []
    assert {finding.code for finding in found if finding.severity is Severity.WARNING} == WARNED[name]
