from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogue import store
from catalogue.table import PAGE, page, seen
from cdc_outbox.debezium.options import (
    CONNECTORS,
    Option,
    Rename,
    catalogue,
    find,
    find_framework,
    option_of,
    plugin,
    plugins,
    renamed,
    renamed_value,
    renames,
    row_of,
    unfold,
    versions,
)
from cdc_outbox.debezium.render import render
from cdc_outbox.spec import parse_spec
from tests.support.specs import ORDERS

EVENT_ROUTER = "io.debezium.transforms.outbox.EventRouter"

NOT_SEEN = {
    # Oracle's connector could be looked at up to 3.6.1, and it went in 3.7.0.
    "log.mining.continuous.mine",
    # A class, and the option takes any.
    "io.debezium.relational.history.FileDatabaseHistory",
}
"""What is known from Debezium's history only."""

OPTIONS = st.builds(
    Option,
    name=st.sampled_from(["a", "b.c", "d"]),
    type=st.sampled_from(["string", "int"]),
    default=st.sampled_from([None, "", "x"]),
    importance=st.sampled_from(["", "low"]),
    required=st.booleans(),
    is_reported=st.booleans(),
    allowed=st.sampled_from([(), ("x", "y")]),
    aliases=st.sampled_from([(), ("old",)]),
)
HISTORIES = st.lists(st.lists(OPTIONS, unique_by=lambda option: option.name), min_size=1, max_size=5)


def facts(options: dict[str, Option]) -> dict[str, Option]:
    return {name: replace(option, since="", until="") for name, option in options.items()}


@given(HISTORIES)
def test_stored_lines_hold_every_version(history: list[list[Option]]) -> None:
    by_version = {f"1.{place}.0": {option.name: option for option in each} for place, each in enumerate(history)}
    content = {"versions": list(by_version), "options": store.fold(by_version)}
    unfolded = unfold(content)
    assert {version: facts(options) for version, options in unfolded.items()} == {
        version: facts(options) for version, options in by_version.items()
    }
    assert store.fold(unfolded) == content["options"]


@given(OPTIONS)
def test_an_option_is_read_as_it_was_stored(option: Option) -> None:
    assert option_of(row_of(option)) == option


def test_storing_again_what_is_stored_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {path.stem: path.read_text() for path in store.FOLDER.glob("*.json")}
    contents = {name: store.read(name) for name in stored}
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    for connector in CONNECTORS:
        store.write(connector, {**contents[connector], "options": store.fold(unfold(contents[connector]))})
        assert (tmp_path / f"{connector}.json").read_text() == stored[connector]


def test_the_page_shows_what_is_stored() -> None:
    assert PAGE.read_text() == page(), "write it again with `infra/catalogue --page`"


def test_the_catalogue_is_small_enough_to_ship() -> None:
    assert sum(path.stat().st_size for path in store.FOLDER.glob("*.json")) < 300_000


@pytest.mark.parametrize("connector", CONNECTORS)
def test_every_connector_was_looked_at(connector: str) -> None:
    assert versions(connector)[0] == "3.5.0"
    known = catalogue(connector)
    assert known.exact
    assert known.options["topic.prefix"].required
    assert known.options["topic.prefix"].is_reported


def test_an_option_is_known_in_its_versions_only() -> None:
    old, new = (plugin(EVENT_ROUTER, version) for version in ("3.5.0", "3.7.0.Final"))
    assert old
    assert new
    assert "table.fields.additional.error.on.missing" in old.options
    assert "table.field.additional.missing" not in old.options
    assert "table.fields.additional.error.on.missing" not in new.options
    assert new.options["table.field.additional.missing"].allowed == ("error", "ignore")
    assert "never" in catalogue("mysql", "3.5.0").options["snapshot.mode"].allowed
    assert "never" not in catalogue("mysql", "3.6.0").options["snapshot.mode"].allowed


@pytest.mark.parametrize(
    ("asked", "known"),
    [("3.6.1.Final", "3.6.1"), ("3.5.0", "3.5.0"), ("3.9.0", "3.6.1"), ("3.5.7", "3.5.0"), ("1.9.7", "3.5.0")],
)
def test_the_nearest_older_version_stands_for_one_that_was_not_looked_at(asked: str, known: str) -> None:
    found = catalogue("oracle", asked)
    assert (found.version, found.exact) == (known, asked.removesuffix(".Final") == known)


def test_options_are_found_by_pattern_by_alias_and_by_what_is_passed_on() -> None:
    postgresql, mysql = catalogue("postgresql"), catalogue("mysql")
    assert postgresql.find("column.truncate.to.20.chars")
    assert postgresql.find("column.mask.hash.SHA-256.with.salt.x")
    assert postgresql.find("column.truncate.to.many.chars") is None
    assert postgresql.find("internal.legacy.snapshot.max.threads")
    assert mysql.find("schema.history.internal.producer.security.protocol")
    assert postgresql.find("schema.history.internal.producer.security.protocol") is None
    assert postgresql.find("slot.nmae") is None
    assert find("slot.name").keys() == {"postgresql"}
    assert find("topic.prefix").keys() == CONNECTORS.keys()


def test_what_a_connector_reads_without_telling_is_known_as_such() -> None:
    for connector, name in (("postgresql", "offset.mismatch.strategy"), ("mysql", "binary.handling.mode")):
        option = catalogue(connector).find(name)
        assert option
        assert not option.is_reported


@pytest.mark.parametrize(
    "name",
    [
        "name",
        "tasks.max",
        "errors.tolerance",
        "transforms.any.predicate",
        "predicates.any.type",
        "producer.override.linger.ms",
        "consumer.override.isolation.level",
        "topic.creation.groups",
        "topic.creation.default.partitions",
        "topic.creation.mine.retention.ms",
    ],
)
def test_connects_own_options_are_known(name: str) -> None:
    assert find_framework(name)


@pytest.mark.parametrize(
    "name", ["task.max", "transforms.any.predicates", "producer.override.lingerms", "topic.creation.on", "slot.name"]
)
def test_others_are_not_connects(name: str) -> None:
    assert find_framework(name) is None


def test_plugins_have_the_short_names_that_connect_takes() -> None:
    for name in ("EventRouter", "Json", "JsonConverter", "TopicNameMatches", "RegexRouter"):
        assert plugin(name), name
    assert plugin("ByteArrayConverter") is None, "Debezium and Connect both have one"
    assert plugin("org.example.Nothing") is None


def test_the_demos_rendered_options_are_all_known() -> None:
    config = render(parse_spec(ORDERS.read_text()))
    # One option is there under both of its names.
    router, earlier = plugin(EVENT_ROUTER), plugin(EVENT_ROUTER, "3.5")
    predicate = plugin("TopicNameMatches")
    assert router
    assert earlier
    assert predicate
    theirs = {f"transforms.outbox.{name}" for name in (*router.options, *earlier.options)}
    theirs |= {f"predicates.isOutbox.{name}" for name in predicate.options}
    unknown = {
        name for name in config.keys() - theirs if not find_framework(name) and not catalogue("postgresql").find(name)
    }
    assert unknown == set()


@pytest.mark.parametrize("entry", renames(), ids=lambda entry: f"{entry.value_of}{entry.old}")
def test_what_was_renamed_is_gone_and_the_new_name_is_there(entry: Rename) -> None:
    assert seen(entry) == (entry.old not in NOT_SEEN)


def test_renames_are_found_by_connector_prefix_and_value() -> None:
    assert renamed("database.server.name", "postgresql") == renamed("database.server.name")
    assert renamed("database.server.name", "mongodb") is None
    history = renamed("database.history.kafka.topic", "mysql")
    assert history
    assert (history.new, history.version) == ("schema.history.internal.kafka.topic", "2.0.0")
    monitored = renamed("database.history.store.only.monitored.tables.ddl", "mysql")
    assert monitored
    assert monitored.new == "schema.history.internal.store.only.captured.tables.ddl"
    missing = renamed("table.fields.additional.error.on.missing", plugin="EventRouter")
    assert missing
    assert (missing.new, missing.version, missing.same_values) == ("table.field.additional.missing", "3.6.0", False)
    assert renamed("table.fields.additional.error.on.missing") is None
    schema_only = renamed_value("snapshot.mode", "schema_only", "oracle")
    assert schema_only
    assert schema_only.new == "no_data"
    assert renamed_value("snapshot.mode", "initial", "oracle") is None
    partition = "io.debezium.transforms.partitions.ComputePartition"
    assert renamed_value("transforms.any.type", partition)


def test_what_is_stored_are_facts_and_no_prose() -> None:
    texts = [option.default or "" for connector in CONNECTORS for option in catalogue(connector).options.values()]
    assert not [text for text in texts if ". " in text]
    assert plugins() == tuple(sorted(set(plugins())))
