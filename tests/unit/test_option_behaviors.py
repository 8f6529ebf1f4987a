"""What is known about an option stands in one table, which rendering, planning, linting and adopting read."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium import options as catalogue
from cdc_outbox.debezium.diff import changes_between
from cdc_outbox.debezium.lint import RULES
from cdc_outbox.debezium.options.behavior import ImpactLevel, OptionBehavior
from cdc_outbox.debezium.options.lookup import OPTIONS, adoption_of, impact_of, reason_against
from cdc_outbox.finding import Severity
from tests.support.configs import CLEAN

PACKAGE = Path(__file__).parents[2] / "cdc_outbox" / "debezium"
ASPECTS = ("default", "promise", "override", "changed", "adopted")
ENTRIES = pytest.mark.parametrize("entry", OPTIONS, ids=lambda entry: entry.names[0])


def known_names() -> set[str]:
    """Return the names of all options: of the connectors, of Connect and its producer, and of the plugins."""
    connectors = [
        catalogue.catalogue(connector, version).options
        for connector in catalogue.CONNECTORS
        for version in catalogue.versions(connector)
    ]
    plugins = {
        f"{around}.{option}"
        for name in catalogue.plugins()
        if (plugin := catalogue.plugin(name)) is not None
        for around in (f"transforms.{name.rpartition('.')[2]}", "value.converter")
        for option in (*plugin.options, "predicate", "delegate.converter.type")
    }
    topics = {"topic.creation.default.cleanup.policy"}  # settings of topics are Kafka's, of which no plugin tells
    producer = {f"producer.override.{name}" for name in catalogue.producer()}
    gone = {rename.old for rename in catalogue.renames()}
    own = (name for each in connectors for name in each)
    return {*own, *catalogue.framework(), *plugins, *topics, *producer, *gone}


NAMES = known_names()


@ENTRIES
def test_an_entry_is_of_options_that_exist_and_has_a_word_for_them(entry: OptionBehavior) -> None:
    assert any(getattr(entry, aspect) for aspect in ASPECTS)
    assert [name for name in entry.names if not any(entry.covers(known) for known in NAMES)] == []


@pytest.mark.parametrize("aspect", ASPECTS)
def test_each_option_is_told_of_once(aspect: str) -> None:
    told = Counter(name for entry in OPTIONS if getattr(entry, aspect) for name in entry.names)
    assert {name: count for name, count in told.items() if count > 1} == {}


@ENTRIES
def test_the_texts_of_an_entry_fit_where_they_are_printed(entry: OptionBehavior) -> None:
    for impact in entry.changed:
        assert impact.text[0].isupper()
        assert impact.text.endswith(".")
    for impact in entry.adopted:
        told = impact.text.format(lost="a", gained="b")
        assert told[0].islower()
        assert told.endswith(".")
    if entry.promise is not None:
        assert not entry.promise.reason.endswith(".")
        assert entry.promise.code == "" or entry.promise.severity is not Severity.NOTE


@ENTRIES
def test_what_a_spec_may_not_override_is_what_lint_finds(entry: OptionBehavior) -> None:
    if entry.promise is None:
        return
    for name in entry.names:
        option = name + ("x" if name.endswith(".") else "")
        assert reason_against(option, "x", ()) == entry.promise.reason
    assert not entry.promise.code or entry.promise.code in {rule.code for rule in RULES}


TABLES = {
    ("adopt/recognition.py", "WORDS"): "the key of a spec that an option is read back into; render has the same keys",
    ("lint/several.py", "_SHARED"): "what only one connector may have",
    ("lint/values.py", "_NEEDS"): "which other option a value needs",
    ("render/transforms.py", "_ROUTER_KEYS"): "which key of a spec decides an option of the router",
}
"""Tables of options outside of the option table, and what they say that it does not."""
_MANY = 5


def tables() -> Iterator[tuple[str, str]]:
    """Yield the constants of modules that name many options."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                constants = [each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
                texts = {value for value in constants if isinstance(value, str)}
                own = {f"transforms.EventRouter.{text}" for text in texts} & NAMES
                if len(texts & NAMES) + len(own) >= _MANY:
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    yield str(path.relative_to(PACKAGE)), ast.unparse(target)


def test_no_other_module_has_a_table_of_options() -> None:
    own = {(f"options/{noun}_options.py", f"{noun.upper()}_OPTIONS") for noun in ("capture", "router", "kafka")}
    assert set(tables()) - own == set(TABLES)


OTHER_DEFAULTS = {
    "plugin.name": "rules about pgoutput speak of it where no plugin is named; CC601 tells of that",
    "schema.history.internal": "a part of the class's name",
}


def defaults_in_rules() -> Iterator[tuple[str, str]]:
    """Yield the options that rules read with a default of their own, and that."""
    for path in (PACKAGE / "lint").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="get" | "number"),
                    args=[ast.Constant(value=str() as option), ast.Constant(value=default)],
                ):
                    yield option, str(default)


def test_a_default_that_a_rule_reads_by_is_that_of_a_connector() -> None:
    told = {option: {known.default for known in catalogue.find(option).values()} for option, _ in defaults_in_rules()}
    wrong = {option for option, default in defaults_in_rules() if told[option] - {None} and default not in told[option]}
    assert wrong == set(OTHER_DEFAULTS)


@pytest.mark.parametrize(
    ("mode", "level"),
    [
        (None, ImpactLevel.CONNECTOR),  # initial
        ("never", ImpactLevel.CONNECTOR),  # of MySQL before 3.6
        ("recovery", ImpactLevel.CONNECTOR),
        ("when_needed_no_data", ImpactLevel.CONNECTOR),
        ("configuration_based", ImpactLevel.DANGEROUS),
        ("always", ImpactLevel.DANGEROUS),
        ("when_needed", ImpactLevel.DANGEROUS),
        ("initial_only", ImpactLevel.DANGEROUS),
        ("custom", ImpactLevel.DANGEROUS),
    ],
)
def test_plan_and_adopt_agree_which_snapshot_modes_read_no_rows_once_there_are_offsets(
    mode: str | None, level: ImpactLevel
) -> None:
    adopted = adoption_of("snapshot.mode", mode, "no_data")
    assert impact_of("snapshot.mode", mode, "no_data").level is level
    assert adopted is not None
    assert (adopted.level is ImpactLevel.CONNECTOR) == (level is ImpactLevel.CONNECTOR)


def test_what_stops_reading_rows_is_no_danger_on_a_database_that_keeps_a_history() -> None:
    config = CLEAN[DatabaseKind.MYSQL]
    [change] = changes_between({**config, "snapshot.mode": "recovery"}, {**config, "snapshot.mode": "no_data"})
    assert not change.is_dangerous


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [(None, "5000000", "connector"), ("5000000", None, "dangerous"), ("5000000", "0", "dangerous")],
)
def test_a_connector_without_its_buffer_may_publish_what_was_undone(
    before: str | None, after: str | None, level: str
) -> None:
    assert impact_of("binlog.buffer.size", before, after).level == level
    adopted = adoption_of("binlog.buffer.size", before, after)
    assert adopted is not None
    assert adopted.level == "connector"
