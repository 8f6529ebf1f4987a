"""The stored catalogue against the plugins that the stack's worker runs."""

from dataclasses import replace

from catalogue import store
from catalogue.extract import extract
from cdc_outbox.debezium.options import CONNECTORS, Option, framework, producer, row_of, unfold
from cdc_outbox.testing import Stack


def test_the_stored_options_are_those_of_the_running_plugins(outbox_stack: Stack) -> None:
    folders = [folder for folder in outbox_stack.jvm.plugins if any(folder.glob("debezium-*.jar"))]
    found = extract(outbox_stack.connect_cluster, folders, outbox_stack.jvm)
    assert "postgresql" in found.connectors
    for connector, options in found.connectors.items():
        stored = store.read(connector)
        version = found.versions[CONNECTORS[connector]]
        assert _rows(options) == _rows(unfold(stored)[version]), connector
    kafka, debezium = store.read("connect")["plugins"], store.read("debezium")["plugins"]
    assert found.plugins.keys() - kafka.keys() - debezium.keys() == set()
    for name, options in found.plugins.items():
        stored = debezium.get(name) or kafka[name]
        assert _rows(options) == _rows(unfold(stored)[found.versions[name]]), name
        assert found.kinds[name] == stored["kinds"]
    assert _rows(found.framework) == _rows({name: option for name, option in framework().items() if option.is_reported})
    assert _rows(found.producer) == _rows(dict(producer()))


def _rows(options: dict[str, Option]) -> list[list[object]]:
    """Return the options as they are stored, without the versions, which one worker does not know."""
    return [row_of(replace(options[name], since="", until="")) for name in sorted(options)]
