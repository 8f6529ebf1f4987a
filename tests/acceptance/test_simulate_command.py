"""`cdc-outbox simulate` from the shell: what a row becomes, by either engine, and what it exits with."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox.debezium.event_router.jvm import Jvm, RealRouter
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.specs import MONGODB

SPEC = str(Path(__file__).parents[2] / "connectors" / "orders.yaml")
ID = "da8d6de6-3b77-45ff-8f44-57db55a7a06c"
ROW = {
    "id": ID,
    "aggregatetype": "customer",
    "aggregateid": "42",
    "type": "OrderPlaced",
    "payload": {"total_cents": 1999},
    "sequence": 1,
    "created_at": "2026-11-21T10:00:00.123456",
}
CONFIG = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "shop",
    "table.include.list": "public.outbox_events",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": False,
    "transforms": "outbox",
    "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "transforms.outbox.table.fields.additional.placement": "type:envelope:eventType,tenant:header",
}


@pytest.fixture(scope="module", autouse=True)
def one_jvm_for_all() -> Iterator[None]:
    """Start one JVM for each connector: each command would start its own, which takes a second."""
    start = RealRouter.open
    with ExitStack() as running, pytest.MonkeyPatch.context() as patch:
        opened = cache(lambda jvm, plugin: running.enter_context(start(jvm, plugin)))

        def open_again(jvm: Jvm, plugin: Path | None = None) -> nullcontext[RealRouter]:
            return nullcontext(opened(jvm, plugin))

        patch.setattr(RealRouter, "open", open_again)
        yield


def write_config(folder: Path, **options: Any) -> str:
    path = folder / "connector.json"
    path.write_text(json.dumps({"name": "shop", "config": CONFIG | options}))
    return str(path)


CACHED = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME") if name in os.environ}
"""Where the jars are."""


def simulated(*arguments: str, env: dict[str, str] | None = None) -> list[dict[str, Any]]:
    done = run_command("simulate", *arguments, "--output", "json", env=CACHED | (env or {}))
    assert done.returncode in {0, 1}, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["outcomes"]
    return found


def test_a_row_of_mariadb_becomes_the_same_message_as_one_of_postgresql() -> None:
    other = SPEC.replace("orders.yaml", "orders-mariadb.yaml")
    assert simulated(other, "--row", json.dumps(ROW)) == simulated(SPEC, "--row", json.dumps(ROW))
    done = run_command("simulate", other, "--from-table", "--dsn", "mysql://u:p@nowhere.invalid/orders")
    assert "--from-table reads PostgreSQL only; give a row with --row" in done.stderr


def test_a_row_is_shown_as_the_message_that_it_becomes() -> None:
    done = run_command("simulate", SPEC, "--row", json.dumps(ROW))
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "topic      outbox.event.customer\n"
        "partition  1 of 3\n"
        "key        42\n"
        f"header     id: {ID}\n"
        "header     eventType: OrderPlaced\n"
        "header     aggregateType: customer\n"
        "header     sequence: 1\n"
        "header     source: (null)\n"
        "header     createdAt: 1795255200123456\n"
        "header     traceparent: (null)\n"
        "header     tracestate: (null)\n"
        "timestamp  2026-11-21T10:00:00.123+00:00 (1795255200123)\n"
        'value      {"total_cents": 1999}\n'
    )


def test_any_connectors_json_will_do(tmp_path: Path) -> None:
    row = json.dumps(ROW | {"tenant": "acme", "payload": "é"})
    [shown] = simulated(write_config(tmp_path), "--row", row, "--partitions", "12")
    assert shown["value"] == '{"payload":"é","eventType":"OrderPlaced"}'
    assert shown["headers"] == [["id", ID], ["tenant", "acme"]]
    assert (shown["key"], shown["partitions"]) == ("42", 12)


def test_a_row_that_the_table_refuses_is_shown_with_a_note() -> None:
    done = run_command("simulate", SPEC, "--row", json.dumps(ROW), "--row", '{"aggregatetype": "customer"}')
    assert done.returncode == 0
    assert done.stderr == "note       row 2 has no value for id, aggregateid, type, which the table requires\n"


def test_a_row_that_would_fail_the_task_is_an_error_and_exits_1(tmp_path: Path) -> None:
    done = run_command("simulate", write_config(tmp_path), "--row", json.dumps(ROW), "--row", json.dumps(ROW))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == ("error      DataException in transform: tenant is not a valid field name")


def test_a_topic_that_no_broker_takes_is_an_error_beside_the_message() -> None:
    [shown] = simulated(SPEC, "--row", json.dumps(ROW | {"aggregatetype": "two words"}))
    assert shown["topic"] == "outbox.event.two words"
    assert "Kafka does not accept the topic" in shown["error"]["message"]


def test_what_the_router_does_not_see_is_noted(tmp_path: Path) -> None:
    options = {
        "transforms": "case,outbox",
        "transforms.outbox.predicate": "isOutbox",
        "predicates": "isOutbox",
        "predicates.isOutbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.isOutbox.pattern": "outbox.event.*",
    }
    arguments = [write_config(tmp_path, **options), "--row", json.dumps(ROW | {"tenant": ""})]
    done = run_command("simulate", *arguments)
    assert done.stderr == (
        "note       the transform case is skipped\nnote       its predicate isOutbox hides messages "
        "of the topic shop.public.outbox_events from the EventRouter\n"
    )
    assert "predicate" not in run_command("simulate", *arguments, "--set", "transforms.outbox.negate=true").stderr
    assert run_command("simulate", SPEC, "--row", json.dumps(ROW)).stderr == ""


def test_what_becomes_no_message_is_said() -> None:
    done = run_command("simulate", SPEC, "--row", json.dumps(ROW), "--operation", "delete")
    assert (done.returncode, done.stdout) == (0, "nothing    the row produces no message\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either --row or --from-table"),
        (["--row", "{}", "--from-table"], "either --row or --from-table"),
        (["--from-table"], "needs --dsn"),
        (["--row", "{"], "not JSON"),
        (["--row", "[]"], "not a JSON object"),
        (["--row", '{"sequence": "x"}'], "is not of type bigint"),
        (["--row", "{}", "--set", "x"], "NAME=VALUE"),
        (["--row", "{}", "--debezium", "3"], "in full"),
        (["--row", "{}", "--set", "transforms=other"], "no EventRouter"),
        (["--row", "{}", "--set", "time.precision.mode=nanoseconds"], "is not supported here"),
    ],
)
def test_what_cannot_be_simulated_exits_2_with_a_sentence(arguments: list[str], message: str) -> None:
    done = run_command("simulate", SPEC, *arguments, env={"CDC_OUTBOX_DSN": ""})
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["", "[]", '{"config": {"a": {}}}', "\xff"])
def test_a_file_that_is_no_configuration_exits_2(text: str, tmp_path: Path) -> None:
    path = tmp_path / "connector.json"
    path.write_text(text, encoding="latin-1")
    done = run_command("simulate", str(path), "--row", "{}")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_both_engines_show_the_same(tmp_path: Path) -> None:
    row = json.dumps(ROW | {"tenant": None, "price": "1.50", "raw": "\\x00ff"})
    arguments = [
        *(
            write_config(tmp_path),
            "--row",
            row,
            "--row",
            "{}",
            "--column-type",
            "price=numeric(10,2)",
            "--column-type",
            "raw=bytea",
        ),
        *("--set", "transforms.outbox.table.fields.additional.placement=price:header,raw:header,tenant:header"),
        # Without it the time is that of the command.
        *(
            "--set",
            "transforms.outbox.table.field.event.timestamp=created_at",
            "--column-type",
            "created_at=timestamp(3)",
        ),
    ]
    ours, theirs = simulated(*arguments), simulated(*arguments, "--engine", "real")
    assert ours[0] == theirs[0]
    assert [shown["error"]["exception"] for shown in (ours[1], theirs[1])] == ["ConnectException"] * 2


def test_expansion_is_run_and_not_imitated(tmp_path: Path) -> None:
    config = write_config(tmp_path, **{"transforms.outbox.table.expand.json.payload": "true"})
    row = json.dumps(ROW | {"tenant": "acme", "payload": {"a": None, "b": [1, 2], "c": 1.0}})
    refused = run_command("simulate", config, "--row", row)
    assert refused.returncode == 2
    assert "--engine real" in refused.stderr
    [shown] = simulated(config, "--row", row, "--engine", "real")
    assert shown["value"] == '{"payload":{"b":[1,2],"c":1.0},"eventType":"OrderPlaced"}'


def test_mongodbs_router_is_run_and_not_imitated(tmp_path: Path) -> None:
    path = tmp_path / "mongo.json"
    options = {name: value for name, value in CONFIG.items() if not name.startswith(("transforms", "table"))}
    router = {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter",
        "transforms.outbox.collection.field.event.key": "aggregateid",
    }
    path.write_text(json.dumps(options | router))
    document = '{"_id": {"$numberLong": "7"}, "aggregateid": "42", "aggregatetype": "order", "payload": {"a": 1}}'
    refused = run_command("simulate", str(path), "--row", document)
    assert (refused.returncode, "--engine real" in refused.stderr) == (2, True)
    [shown] = simulated(str(path), "--row", document, "--engine", "real")
    assert (shown["topic"], shown["key"], shown["headers"]) == ("outbox.event.order", "42", [["id", "7"]])
    assert json.loads(json.loads(shown["value"])) == {"a": {"$numberInt": "1"}}


def test_a_document_is_shown_as_the_message_that_its_spec_makes_of_it(tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(MONGODB)
    document = {"_id": {"$oid": "507f1f77bcf86cd799439011"}, "aggregatetype": "customer", "aggregateid": "42"}
    document |= {"type": "OrderPlaced", "payload": '{"total_cents": 1999}', "sequence": {"$numberLong": "1"}}
    document |= {"source": "orders.1", "created_at": {"$numberLong": "1795255200123"}}
    dated = document | {"created_at": {"$date": "2026-11-21T10:00:00Z"}}
    arguments = ["--engine", "real", "--row", json.dumps(document), "--row", json.dumps(dated)]
    shown, failed = simulated(str(spec), *arguments)
    assert (shown["topic"], shown["key"], shown["value"]) == ("outbox.event.customer", "42", '{"total_cents": 1999}')
    assert dict(shown["headers"]) == {
        "id": "507f1f77bcf86cd799439011",
        "eventType": "OrderPlaced",
        "aggregateType": "customer",
        "sequence": "1",
        "source": "orders.1",
        "createdAt": "1795255200123",
    }
    assert shown["timestamp_ms"] == 1795255200123
    assert failed["error"]["exception"] == "DataException"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--row", "{}"], "--engine real"),
        (["--row", "{", "--engine", "real"], "not JSON"),
        (["--from-table", "--dsn", "mongodb://nowhere.invalid"], "--from-table reads PostgreSQL"),
    ],
)
def test_what_cannot_be_simulated_of_mongodb_exits_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(MONGODB)
    done = run_command("simulate", str(spec), *arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_rows_are_taken_from_the_table_with_the_types_that_they_have_there(pipeline: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(pipeline.name))
    pipeline.write(3)
    env = {"CDC_OUTBOX_DSN": pipeline.dsn}
    with pipeline.connect() as connection:
        # Neither may change what a row becomes.
        connection.execute(f"alter database {pipeline.name} set datestyle = 'German'")
        connection.execute(f"alter database {pipeline.name} set bytea_output = 'escape'")
        written = [str(row[0]) for row in connection.execute("select id from outbox order by id desc").fetchall()]
    newest = simulated(str(path), "--from-table", "--limit", "2", env=env)
    assert [dict(shown["headers"])["id"] for shown in newest] == written[:2]
    [one] = simulated(str(path), "--from-table", "--id", written[2], env=env)
    assert dict(one["headers"])["sequence"] == "1"
    [real] = simulated(str(path), "--from-table", "--id", written[2], "--engine", "real", env=env)
    assert real == one
    assert run_command("simulate", str(path), "--from-table", "--table", "nowhere", env=env).returncode == 1


def test_a_table_of_ones_own_is_read_by_its_own_types(pipeline: Pipeline, tmp_path: Path) -> None:
    with psycopg.connect(pipeline.dsn) as connection:
        connection.execute(
            "create table outbox_events (id int not null, aggregatetype varchar(9), aggregateid uuid, type text, "
            "tenant char(3), payload bytea, at timestamp, tags text[], ratio float8)"
        )
        connection.execute(
            "insert into outbox_events values (7, 'order', %s, 'Placed', 'ab', '\\x00ff', "
            "'2026-11-21 10:00:00.5', '{a}', 0.1)",
            (ID,),
        )
    config = write_config(
        tmp_path,
        **{
            "value.converter": "io.debezium.converters.BinaryDataConverter",
            "transforms.outbox.table.fields.additional.placement": "tenant:header",
            "transforms.outbox.table.field.event.timestamp": "at",
        },
    )
    arguments = [config, "--from-table", "--dsn", pipeline.dsn]
    [shown] = simulated(*arguments)
    assert shown["value"] == {"base64": "AP8="}
    assert shown["headers"] == [["id", "7"], ["tenant", "ab "]]
    assert (shown["key"], shown["timestamp_ms"]) == (ID, 1795255200500)
    assert simulated(*arguments, "--engine", "real") == [shown]
    assert simulated(*arguments, "--engine", "real", "--debezium", "3.5.0.Final") == [shown]
