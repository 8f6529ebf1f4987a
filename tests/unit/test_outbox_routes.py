"""Which relation of a stream gets a route, and with which columns."""

from pathlib import Path

import pytest

from cdc_outbox.databases.pgoutput import Relation, RelationColumn
from cdc_outbox.debezium.event_router.column_values import Column
from cdc_outbox.debezium.event_router.compiled import RouteCompiler
from cdc_outbox.debezium.event_router.outbox_rows import outbox_columns
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import RoutingError
from cdc_outbox.relay.wal_relay import OutboxRoutes
from cdc_outbox.spec import Spec, load_spec

ORDERS = Path(__file__).parents[2] / "connectors" / "orders.yaml"


@pytest.fixture
def spec() -> Spec:
    return load_spec(ORDERS)


def routes_of(spec: Spec, asked: list[Relation]) -> OutboxRoutes:
    known = {column.name: column for column in outbox_columns(spec.outbox)}

    def read_columns(relation: Relation) -> list[Column]:
        asked.append(relation)
        return [known[column.name] for column in relation.columns]

    return OutboxRoutes(RouteCompiler.from_config(render(spec)), spec.outbox.table, read_columns)


def relation_of(spec: Spec, schema: str, name: str, *, backwards: bool = False) -> Relation:
    names = [column.name for column in outbox_columns(spec.outbox)]
    if backwards:
        names.reverse()
    return Relation(7, schema, name, tuple(RelationColumn(each, 25, -1) for each in names))


def test_a_route_has_the_columns_of_the_relation_that_came_last(spec: Spec) -> None:
    asked: list[Relation] = []
    routes = routes_of(spec, asked)
    values = dict.fromkeys((column.name for column in outbox_columns(spec.outbox)), b"1") | {
        "id": b"0192d7a0-0000-7000-8000-000000000001",
        "payload": b"{}",
        "created_at": b"2026-11-20 12:34:56.123456",
    }
    messages = []
    for backwards in (False, True):
        route = routes.find(relation_of(spec, "public", spec.outbox.name, backwards=backwards))
        assert route is not None
        messages.append(route([*(reversed(values.values()) if backwards else values.values())]))
    assert messages[0] == messages[1]
    assert len(asked) == 2


@pytest.mark.parametrize(("schema", "name"), [("other", "outbox"), ("public", "outbox_2026_11")])
def test_another_table_has_no_route(spec: Spec, schema: str, name: str) -> None:
    asked: list[Relation] = []
    assert routes_of(spec, asked).find(relation_of(spec, schema, name)) is None
    assert asked == []


def test_an_updated_row_is_what_it_is_to_the_event_router(spec: Spec) -> None:
    routes = routes_of(spec, [])
    routes.drop("d")
    config = render(spec) | {"transforms.outbox.table.op.invalid.behavior": "fatal", "skipped.operations": "none"}
    fatal = OutboxRoutes(RouteCompiler.from_config(config), spec.outbox.table, lambda _: ())
    with pytest.raises(RoutingError):
        fatal.drop("u")
