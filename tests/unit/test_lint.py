import json
from collections import Counter
from collections.abc import Mapping
from functools import partial

import pytest

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.lint import RULES, Config, lint, lint_all
from cdc_outbox.finding import Severity
from tests.support.configs import CLEAN, JSON, MONGO_ROUTER, changed, config_of
from tests.support.hazards import CASES
from tests.support.lint_case import Case
from tests.support.time_limits import cpu_seconds


def codes(changes: Mapping[str, str | None], kind: DatabaseKind = DatabaseKind.POSTGRESQL) -> list[str]:
    return [finding.code for finding in lint(config_of(changed(kind, changes)))]


@pytest.mark.parametrize("kind", CAPTURED)
def test_a_clean_configuration_has_no_findings(kind: DatabaseKind) -> None:
    found = [finding for finding in lint(config_of(CLEAN[kind])) if finding.code != "CC808"]
    assert found == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_hazard_is_found_at_its_line(case: Case) -> None:
    config = case.config()
    found = [finding for finding in lint(config) if (finding.code, finding.location.path) == (case.code, case.at)]
    assert len(found) == 1, [str(finding) for finding in lint(config)]
    text = json.dumps(dict(config.options), indent=1).splitlines()
    where = [number for number, line in enumerate(text, 1) if line.startswith(f" {json.dumps(case.at)}:")]
    # What is missing is missed where the object begins.
    assert found[0].location.line == (where or [1])[0]
    assert found[0].message.endswith(".")
    assert "hunter2" not in str(found[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_hazard_is_found_without_it(case: Case) -> None:
    if case.code != "CC808":
        assert case.code not in [finding.code for finding in lint(config_of(CLEAN[case.kind]))]


def test_every_rule_has_a_case() -> None:
    rules = {rule.code for rule in RULES}
    assert {case.code for case in CASES} == rules


def test_there_are_more_than_a_hundred_rules_and_each_code_is_of_one_severity() -> None:
    severities: dict[str, set[Severity]] = {}
    for rule in RULES:
        severities.setdefault(rule.code, set()).add(rule.severity)
    assert len(severities) > 100
    assert all(len(found) == 1 for found in severities.values())


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        (
            {"plugin.name": "${env:PLUGIN}", "slot.name": "${env:SLOT}", "topic.prefix": "${env:PREFIX}"},
            DatabaseKind.POSTGRESQL,
        ),
        ({"transforms.outbox.route.topic.regex": r"(?<routedByValue>[a-z&&[^q]]*)"}, DatabaseKind.POSTGRESQL),
        ({"transforms.outbox.route.topic.regex": r"(?<routedByValue>\p{Lower}+)"}, DatabaseKind.POSTGRESQL),
        ({"transforms.outbox.route.topic.regex": "{2}(?<routedByValue>.*)"}, DatabaseKind.POSTGRESQL),
        ({"transforms.outbox.route.topic.regex": "z|(?:{1})(?<routedByValue>.*)"}, DatabaseKind.POSTGRESQL),
        ({"predicates.isOutbox.pattern": r"{3}orders\.public\.outbox{1}{4}|{2}b"}, DatabaseKind.POSTGRESQL),
        ({"transforms.outbox.route.topic.replacement": r"a\.${routedByValue}"}, DatabaseKind.POSTGRESQL),
        ({"transforms.outbox.route.topic.replacement": "a.$1"}, DatabaseKind.POSTGRESQL),
        ({"transforms.outbox.route.topic.replacement": "${env:TOPICS}"}, DatabaseKind.POSTGRESQL),
        (
            {"transforms.outbox.table.fields.additional.placement": " type : HEADER : t , b:header,"},
            DatabaseKind.POSTGRESQL,
        ),
        ({"transforms.outbox.table.field.event.type": "type"}, DatabaseKind.POSTGRESQL),
        ({"table.include.list": "public.outbox,public.outbox_archive"}, DatabaseKind.POSTGRESQL),
        (
            {
                "heartbeat.interval.ms": "${env:HEARTBEAT_MS}",
                "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
                "transforms": "more,outbox",
                "transforms.more.type": "org.apache.kafka.connect.transforms.ValueToKey",
                "transforms.more.fields": "after",
            },
            DatabaseKind.POSTGRESQL,
        ),
        ({"connector.class": "MySql"}, DatabaseKind.MYSQL),
        ({"database.hostname": None, "database.url": "jdbc:oracle:thin:@x"}, DatabaseKind.ORACLE),
        ({"producer.override.max.in.flight.requests.per.connection": "1"}, DatabaseKind.POSTGRESQL),
        (
            {
                "producer.override.max.in.flight.requests.per.connection": "5",
                "producer.override.enable.idempotence": "true",
                "producer.override.acks": "all",
                "producer.override.linger.ms": "5",
            },
            DatabaseKind.POSTGRESQL,
        ),
        ({"database.password": "${file:/run/secrets/db:password}"}, DatabaseKind.MYSQL),
        ({"database.password": "${MYSQL_PASSWORD}"}, DatabaseKind.MYSQL),
        ({"database.password": "{{ .Values.password }}"}, DatabaseKind.POSTGRESQL),
        ({"tasks.max": "{{ .Values.tasks }}", "heartbeat.interval.ms": "{{ ms }}"}, DatabaseKind.POSTGRESQL),
        ({"snapshot.mode": "{{ mode }}", "topic.prefix": "{{ prefix }}"}, DatabaseKind.POSTGRESQL),
        ({"slot.name": "{{ slot }}", "topic.prefix": "${PREFIX}"}, DatabaseKind.POSTGRESQL),
        ({"value.converter.basic.auth.user.info": "u:${PASSWORD}"}, DatabaseKind.POSTGRESQL),
        ({"schema.include.list": "PUBLIC"}, DatabaseKind.POSTGRESQL),
        ({"offset.mismatch.strategy": "no_validation"}, DatabaseKind.POSTGRESQL),
        ({"skipped.operations": "u,d"}, DatabaseKind.SQLSERVER),
        (
            {"schema.history.internal.kafka.topic": "orders"},
            DatabaseKind.MYSQL,
        ),  # which sends no changes of the schema
    ],
)
def test_what_is_right_or_unknown_is_not_found(changes: dict[str, str | None], kind: DatabaseKind) -> None:
    assert codes(changes, kind) == []


def test_a_connector_of_confluents_cloud_is_told_from_a_misspelt_one() -> None:
    [finding] = (each for each in lint(config_of({"connector.class": "PostgresCdcSourceV2"})) if each.code == "CC224")
    assert finding.message.startswith("this connector of Confluent Cloud has its own options")
    assert "Debezium" in finding.remedy


@pytest.mark.parametrize(
    "regex", [r"\outbox", r"[\y]", "{2}*", "{2}??(.*)", "{a}(.*)", "(?P<routedByValue>.*)", "(.*){3,2}"]
)
def test_an_expression_that_java_refuses_is_found_though_python_may_read_it(regex: str) -> None:
    option = "transforms.outbox.route.topic.regex"
    assert "CC311" in codes({option: regex, "transforms.outbox.route.topic.replacement": "all"})
    assert "CC216" in codes({"predicates.isOutbox.pattern": regex})


def slow_config(length: int) -> Config:
    tables = ",".join(f"{'a' * 3000}{number}.outbox" for number in range(length))
    slow = ",".join(f"(?:.*a){{20}}.*x{number}y" for number in range(5 * length))
    return config_of(changed(DatabaseKind.POSTGRESQL, {"table.include.list": tables, "schema.include.list": slow}))


def test_slow_expressions_are_given_a_second_together() -> None:
    few, many = (cpu_seconds(partial(lint, slow_config(length))) for length in (20, 200))
    assert many < 5 * few
    [finding] = [finding for finding in lint(slow_config(200)) if finding.code != "CC505"]
    assert (finding.code, finding.severity) == ("CC122", Severity.WARNING)
    assert codes({}) == []  # what one configuration has spent another one has again


@pytest.mark.parametrize("name", ["mongodb.MongoDbSinkConnector", "db2.Db2Connector", "vitess.VitessConnector"])
def test_other_connectors_of_debezium_are_not_misspelt(name: str) -> None:
    found = codes({"connector.class": f"io.debezium.connector.{name}"})
    assert ("CC224" in found, "CC223" in found) == (True, False)


def test_notes_about_defaults_are_one_note_where_there_are_several() -> None:
    defaults: dict[str, str | None] = {"poll.interval.ms": None, "snapshot.mode": None}
    [note] = lint(config_of(changed(DatabaseKind.POSTGRESQL, defaults)))
    assert (note.code, note.severity) == ("CC119", Severity.NOTE)
    assert "poll.interval.ms (CC110), snapshot.mode (CC515)" in note.message
    assert codes({"snapshot.mode": None}) == ["CC515"]
    assert codes({**defaults, "errors.tolerance": "all"}) == ["CC119", "CC201"]


def test_two_outboxes_behind_two_predicates_are_fine() -> None:
    config = {
        **CLEAN[DatabaseKind.POSTGRESQL],
        "table.include.list": "public.outbox,billing.outbox",
        "predicates": "isOutbox,isBilling",
        "predicates.isBilling.type": CLEAN[DatabaseKind.POSTGRESQL]["predicates.isOutbox.type"],
        "predicates.isBilling.pattern": "orders\\.billing\\.outbox",
        "transforms": "outbox,billing",
        **{
            option.replace("outbox", "billing", 1): value.replace("isOutbox", "isBilling")
            for option, value in CLEAN[DatabaseKind.POSTGRESQL].items()
            if option.startswith("transforms.outbox.")
        },
    }
    assert lint(config_of(config)) == ()


def test_a_negated_predicate_is_read_the_other_way_round() -> None:
    negated: dict[str, str | None] = {"transforms.outbox.negate": "true"}
    [found] = lint(config_of(changed(DatabaseKind.POSTGRESQL, negated)))
    assert (found.code, found.location.path, found.remedy) == (
        "CC505",
        "transforms.outbox.negate",
        "Remove the option.",
    )
    assert codes({**negated, "predicates.isOutbox.pattern": "__debezium-heartbeat.*"}) == []


def test_a_decoded_message_is_looked_for_in_the_topic_of_messages() -> None:
    message: dict[str, str | None] = {
        "transforms": "decode,outbox",
        "transforms.decode.type": "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent",
        "transforms.decode.fields.null.include": "true",
        "transforms.outbox.table.field.event.timestamp": None,
        "message.prefix.exclude.list": None,
        "message.prefix.include.list": "orders",
    }
    assert codes(message) == ["CC505"]
    assert codes({**message, "predicates.isOutbox.pattern": "orders\\.message"}) == []


def test_json_of_an_expanded_payload_is_not_json_in_json() -> None:
    expanded: dict[str, str | None] = {"transforms.outbox.table.expand.json.payload": "true", "value.converter": JSON}
    assert "CC405" not in codes(expanded)


@pytest.mark.parametrize("password", ["hunter2${NAME}", "${NAME}hunter2", "$hunter2", "${hunter 2}"])
def test_what_only_holds_a_placeholder_is_still_a_secret(password: str) -> None:
    assert codes({"database.password": password}) == ["CC113"]


@pytest.mark.parametrize(
    ("kind", "owner"), [(DatabaseKind.MYSQL, "the server"), (DatabaseKind.SQLSERVER, "the database")]
)
def test_the_history_of_every_table_is_that_of_what_the_connector_reads(kind: DatabaseKind, owner: str) -> None:
    [found] = lint(config_of(changed(kind, {"schema.history.internal.store.only.captured.tables.ddl": None})))
    assert (found.code, f"every table of {owner}," in found.message) == ("CC703", True)


def test_of_expanded_documents_is_told_what_fails_there() -> None:
    expanded = changed(DatabaseKind.MONGODB, {"transforms.outbox.collection.expand.json.payload": "true"})
    [found] = [finding for finding in lint(config_of(expanded)) if finding.code == "CC321"]
    assert "values of different types" in found.message
    assert "StringConverter" not in found.remedy


def test_the_router_of_mongodb_may_be_told_what_to_do_with_updates() -> None:
    options: dict[str, str | None] = {"transforms.outbox.table.op.invalid.behavior": "fatal", "skipped.operations": "t"}
    assert codes({**options, "transforms.outbox.type": MONGO_ROUTER}, DatabaseKind.MONGODB) == ["CC808", "CC337"]
    assert codes({**options, "skipped.operations": "none"}, DatabaseKind.MONGODB) == ["CC808", "CC337"]


def test_what_the_driver_or_a_library_reads_is_not_called_unknown() -> None:
    options = ["driver.x", "database.encrypt", "openlineage.integration.x", "producer.override.linger.ms", "_aiven.x"]
    assert codes(dict.fromkeys(options, "1")) == []


@pytest.mark.parametrize(
    ("slot", "fault"), [("A-b", "contains 'A', '-'"), ("x" * 64, "has 64 characters"), ("A" * 64, "contains 'A'")]
)
def test_what_is_wrong_with_the_name_of_a_slot_is_told(slot: str, fault: str) -> None:
    [found] = lint(config_of(changed(DatabaseKind.POSTGRESQL, {"slot.name": slot})))
    assert (found.code, found.message.partition(";")[0]) == ("CC603", f"the slot name {fault}")


def busy_config(length: int) -> Config:
    many = [f"a{number}" for number in range(length)]
    options = {**CLEAN[DatabaseKind.POSTGRESQL], **dict.fromkeys(many, "x")}
    options |= {f"transforms.outbox.{name}": "x" for name in many[: length // 2]}
    for option in ("transforms", "predicates", "table.include.list", "schema.include.list", "column.exclude.list"):
        options[option] = "outbox," + ",".join(many)
    options["transforms.outbox.table.fields.additional.placement"] = ",".join(f"{name}:header" for name in many)
    options["transforms.outbox.route.topic.regex"] = "(a|a)*+" * length
    options["slot.name"] = "x" * 25 * length
    return config_of(options)


def test_a_configuration_that_is_meant_to_keep_the_linter_busy_does_not() -> None:
    few, many = (cpu_seconds(partial(lint, busy_config(length))) for length in (500, 4_000))
    assert many < 16 * few, "eight times as much takes twice as long; 64 where each looks at all others"
    assert max(Counter(finding.code for finding in lint(busy_config(500))).values()) == 100


def unknown_config(length: int) -> Config:
    unknown = {f"transforms.outbox.{number:030}": "x" for number in range(length)}
    return config_of({**CLEAN[DatabaseKind.POSTGRESQL], **unknown})


def test_a_megabyte_of_unknown_options_is_judged_in_a_moment() -> None:
    few, many = (cpu_seconds(partial(lint, unknown_config(length))) for length in (1_500, 15_000))
    assert many < 30 * few, "ten times as many take ten times as long; a hundred where each looks at all others"
    found = lint(unknown_config(15_000))
    assert Counter(finding.code for finding in found) == {"CC226": 100}


_OF_WORKER = "This is an option of the worker: set it in the worker's configuration."


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("offset.flush.interval.ms", _OF_WORKER),
        ("topic.creation.enable", _OF_WORKER),
        ("producer.acks", _OF_WORKER),
        ("max.interval", ""),
        ("slot.nam", "Did you mean 'slot.name'?"),
        ("snapshot.mdoe", "Did you mean 'snapshot.mode'?"),
        ("transforms.outbox.route.topic.replace", "Did you mean 'route.topic.replacement'?"),
        ("transforms.outbox.route.by", "Did you mean 'route.by.field'?"),
        ("transforms.outbox.topic.regexp", ""),
    ],
)
def test_only_an_option_that_is_nearly_the_same_is_offered(option: str, remedy: str) -> None:
    [found] = lint(config_of(changed(DatabaseKind.POSTGRESQL, {option: "x"})))
    assert (found.location.path, found.remedy) == (option, remedy)


def test_several_connectors_may_share_nothing_that_is_theirs_alone() -> None:
    one, two = (config_of(CLEAN[DatabaseKind.POSTGRESQL], name=name) for name in ("one.json", "two.json"))
    found = lint_all([one, two])
    assert [finding.code for finding in found] == ["CC906", "CC902", "CC901", "CC904", "CC907"]
    assert {finding.location.document for finding in found} == {"two.json"}
    assert all("one.json:" in finding.message for finding in found)
    assert [finding.location.line for finding in found] == [2, 5, 12, 14, 16]


def test_connectors_of_binlogs_may_share_neither_id_nor_history() -> None:
    second = {**CLEAN[DatabaseKind.MYSQL], "name": "b", "topic.prefix": "b", "table.include.list": "b.outbox"}
    second |= {"predicates.isOutbox.pattern": "b\\.b\\.outbox"}
    found = lint_all([config_of(CLEAN[DatabaseKind.MYSQL], name="one"), config_of(second, name="two")])
    assert {finding.code for finding in found} == {"CC903", "CC905"}


@pytest.mark.parametrize(
    ("kind", "database"), [(DatabaseKind.SQLSERVER, "database.names"), (DatabaseKind.ORACLE, "database.pdb.name")]
)
def test_tables_of_two_databases_of_one_server_are_not_one(kind: DatabaseKind, database: str) -> None:
    name, history = {"name": "b", "topic.prefix": "b"}, {"schema.history.internal.kafka.topic": "b"}
    second = {**CLEAN[kind], **name, **history, "predicates.isOutbox.pattern": ".*"}
    assert "CC907" in {finding.code for finding in lint_all([config_of(CLEAN[kind]), config_of(second)])}
    second[database] = "b"
    assert "CC907" not in {finding.code for finding in lint_all([config_of(CLEAN[kind]), config_of(second)])}


@pytest.mark.parametrize(
    "changes",
    [
        {"database.hostname": "other"},
        {"slot.name": "other", "publication.name": "other", "table.include.list": "other.outbox"},
    ],
)
def test_connectors_that_share_nothing_are_left_alone(changes: dict[str, str]) -> None:
    own = {"name": "other", "topic.prefix": "other", "predicates.isOutbox.pattern": "other\\.(public|other)\\.outbox"}
    other = {**CLEAN[DatabaseKind.POSTGRESQL], **own, **changes}
    assert lint_all([config_of(CLEAN[DatabaseKind.POSTGRESQL]), config_of(other)]) == ()


@pytest.mark.parametrize(
    ("query", "codes"),
    [
        ("insert into ops.beats values (1)", []),
        ("insert into public.beats values (1)", ["CC513"]),
        ("insert into app.ops.beats values (1)", []),
        ("select 1 into ops.beats", []),
        ("select 1", ["CC526"]),
    ],
)
def test_a_heartbeat_writes_the_table_that_its_query_names(query: str, codes: list[str]) -> None:
    options = {"table.include.list": r"public\.outbox,ops\.beats", "heartbeat.action.query": query}
    assert [finding.code for finding in lint(config_of(changed(DatabaseKind.POSTGRESQL, options)))] == codes


@pytest.mark.parametrize(("version", "code"), [((3, 6), "CC805"), ((3, 7), "CC101")])
def test_a_heartbeats_query_fails_mongodb_or_does_nothing(version: tuple[int, int], code: str) -> None:
    options = changed(DatabaseKind.MONGODB, {"heartbeat.action.query": "select 1"})
    assert {finding.code for finding in lint(config_of(options, version=version))} & {"CC101", "CC805"} == {code}
