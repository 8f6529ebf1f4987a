"""Which topic Debezium gives a table's changes before they are routed: render, lint and simulate agree with it."""

import json
import re
from pathlib import Path

import pytest

from cdc_outbox.cli.specs import read_config
from cdc_outbox.contract.topics import raw_topic_name
from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.lint import lint
from cdc_outbox.debezium.render import raw_topic, render
from cdc_outbox.debezium.render.spec_config import rendered_config
from cdc_outbox.operations.simulate import Simulation
from cdc_outbox.spec import parse_spec
from tests.support.configs import CLEAN, changed, config_of
from tests.support.specs import MINIMAL


@pytest.mark.parametrize(
    ("parts", "delimiter", "topic"),
    [
        # As SchemaTopicNamingStrategy of Debezium 3.7 names them.
        (("public", "outbox"), ".", "orders.public.outbox"),
        (("public", "\U0001f4e6"), ".", "orders.public.__"),
        (("public", "öutbox \U0001f4e6"), "_", "orders_public__utbox___"),
        (("app", "dbo", "outbox"), "-", "orders-app-dbo-outbox"),
        (("out.x", "b.c"), "_", "orders_out.x_b.c"),
        (("public", "x" * 300), ".", f"orders.public.{'x' * 235}"),
    ],
)
def test_a_topic_is_named_as_debezium_names_it(parts: tuple[str, ...], delimiter: str, topic: str) -> None:
    assert raw_topic_name("orders", *parts, delimiter=delimiter) == topic


@pytest.mark.parametrize("table", ["\U0001f4e6", "öutbox \U0001f4e6", "out.box"])
def test_a_table_of_any_characters_is_one_topic_to_render_lint_and_simulate(table: str) -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{table: {json.dumps(table, ensure_ascii=False)}}}\n")
    config, topic = render(spec), raw_topic_name("orders", "public", table)
    assert re.fullmatch(config["predicates.isOutbox.pattern"], topic)
    assert (raw_topic(spec), rendered_config(spec).raw_topics) == (topic, (topic,))
    simulation = Simulation(config=config, source=f"public.{table}")
    assert (simulation.raw_topic, simulation.notes) == (topic, ())


@pytest.mark.parametrize(
    ("kind", "table", "topic"),
    [
        (DatabaseKind.POSTGRESQL, r"public\.outbox", "orders_public_outbox"),
        (DatabaseKind.MYSQL, r"orders\.outbox", "orders_orders_outbox"),
        (DatabaseKind.SQLSERVER, r"dbo\.outbox", "orders_orders_dbo_outbox"),
    ],
)
def test_another_delimiter_stands_between_all_parts(kind: DatabaseKind, table: str, topic: str) -> None:
    options = {"topic.delimiter": "_", "table.include.list": table, "predicates.isOutbox.pattern": topic}
    config = config_of(changed(kind, options))
    assert config.raw_topics == (topic,)
    assert lint(config) == ()
    [finding] = lint(config_of(changed(kind, {**options, "predicates.isOutbox.pattern": topic.replace("_", r"\.")})))
    assert (finding.code, finding.remedy) == ("CC505", f"Set it to {topic}.")
    simulation = Simulation(config=config.options, source=topic.removeprefix("orders_").replace("_", "."))
    assert (simulation.raw_topic, simulation.notes) == (topic, ())


def test_of_dots_that_may_be_a_names_own_nothing_is_said_beside_another_delimiter() -> None:
    options = {"topic.delimiter": "_", "table.include.list": r"public\.out\.box"}
    assert config_of(changed(DatabaseKind.POSTGRESQL, options)).raw_topics == ()


def test_the_topic_of_messages_has_a_dot_whatever_the_delimiter() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{mode: message}}\n")
    options = {**render(spec), "topic.delimiter": "_"}
    assert config_of(options).raw_topics == ("orders.message",)
    assert Simulation(config=options, source="message").raw_topic == "orders.message"


@pytest.mark.parametrize("kind", [kind for kind in CAPTURED if kind is not DatabaseKind.MONGODB])
def test_simulate_takes_rows_of_a_configuration_for_the_topic_that_lint_names(
    kind: DatabaseKind, tmp_path: Path
) -> None:
    file = tmp_path / "connector.json"
    file.write_text(json.dumps(CLEAN[kind]))
    given = read_config(file, {})
    simulation = Simulation(config=given.options, source=given.source)
    assert (simulation.raw_topic,) == config_of(CLEAN[kind]).raw_topics
    assert simulation.notes == ()
