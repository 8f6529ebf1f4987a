"""What a spec says of its database, and what one kind has and another has not."""

import pytest

from cdc_outbox import ConfigError
from cdc_outbox.spec import HistorySpec, parse_spec
from tests.support.specs import MINIMAL, MONGODB, findings


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_database_without_slots_has_none(kind: str) -> None:
    spec = parse_spec(MINIMAL.replace("kind: postgresql", f"kind: {kind}"))
    assert (spec.database.kind, spec.database.kind.dialect, spec.database.port) == (kind, "mysql", "3306")
    assert (spec.database.slot, spec.database.publication) == ("", "")
    assert spec.history.topic == "orders.schema-history"


def test_a_database_whose_log_names_its_columns_has_no_history() -> None:
    spec = parse_spec(MINIMAL)
    assert (spec.database.server_id, spec.history) == ("", HistorySpec())


def test_a_file_needs_no_more_than_its_kind() -> None:
    database = MINIMAL[MINIMAL.index("  kind") : MINIMAL.index("aggregates")]
    assert parse_spec(MINIMAL.replace(database, "  kind: sqlite\n")).database.kind.dialect == "sqlite"
    [finding] = findings(MINIMAL.replace(database, "  kind: sqlite\n") + "outbox: {schema: public}\n")
    assert "outbox.schema: error SP107: the only schema of a file is main." in finding


@pytest.mark.parametrize(
    ("kind", "outbox", "place", "message"),
    [
        ("mariadb\n  slot: orders", "", ":5 database.slot: error SP107", "mariadb does not support this key."),
        (
            "mysql\n  publication: orders",
            "",
            ":5 database.publication: error SP107",
            "mysql does not support this key.",
        ),
        (
            "postgresql\n  server_id: 7",
            "",
            ":5 database.server_id: error SP107",
            "postgresql does not support this key.",
        ),
        ("postgresql", "history: {}\n", ":11 history: error SP107", "postgresql needs no schema history."),
        ("sqlserver\n  server_id: 7", "", ":5 database.server_id: error SP107", "sqlserver does not support this key."),
        ("sqlserver\n  slot: orders", "", ":5 database.slot: error SP107", "sqlserver does not support this key."),
        ("oracle", "outbox: {table: A}\n", ":11 outbox: error SP107", "a table of oracle belongs to its owner"),
        (
            "oracle",
            "outbox: {schema: A, mode: message}\n",
            "outbox.mode: error SP107",
            "oracle has no logical messages.",
        ),
        ("postgresql\n  pdb: P", "", ":5 database.pdb: error SP107", "postgresql does not support this key."),
        (
            "mysql\n  connection_string: mongodb://a",
            "",
            ":5 database.connection_string: error SP107",
            "mysql does not support this key.",
        ),
        ("sqlite", "", ":5 database.host: error SP107", "sqlite is a file that no worker reaches."),
        ("mariadb", "outbox: {mode: message}\n", "outbox.mode: error SP107", "mariadb has no logical messages."),
        ("mysql", "outbox: {partitions: day}\n", "outbox.partitions: error SP107", "only PostgreSQL's outbox can be"),
    ],
)
def test_what_a_database_does_not_have_is_refused(kind: str, outbox: str, place: str, message: str) -> None:
    [finding] = findings(MINIMAL.replace("postgresql", kind) + outbox)
    assert place in finding
    assert message in finding


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        (("  user", "  host: a\n  user"), ":7 database.host: error SP107", "is reached by its connection string."),
        (("  user", "  port: 27017\n  user"), ":7 database.port: error SP107", "is reached by its connection string."),
        (("  user", "  slot: a\n  user"), ":7 database.slot: error SP107", "mongodb does not support this key."),
        (("aggregates", "history: {}\naggregates"), ":9 history: error SP107", "mongodb needs no schema history"),
        (("aggregates", "outbox: {mode: message}\naggregates"), "outbox.mode: error SP107", "no logical messages."),
        (
            ("aggregates", "outbox: {partitions: day}\naggregates"),
            "outbox.partitions: error SP107",
            "belong to its owner",
        ),
        (("  name: orders\n  user", "  user"), ":3 database: error SP102", "the key 'name' is missing"),
        (("  user: orders_connector\n", ""), ":7 database.password: error SP107", "without database.user"),
        (("  password: ${env:PASSWORD}\n", ""), ":7 database.user: error SP107", "without database.password"),
        (("://mongo-1", "://u:hunter2@mongo-1"), ":5 database.connection_string: error SP105", "contains a password"),
        (("mongodb://mongo", "http://mongo"), ":5 database.connection_string: error SP105", "begins with mongodb://"),
        (("password: ${env:PASSWORD}", "password: hunter2"), ":8 database.password: error SP105", "is a secret"),
    ],
)
def test_what_mongodb_does_not_have_is_refused_with_its_line(change: tuple[str, str], place: str, message: str) -> None:
    [finding] = findings(MONGODB.replace(*change))
    assert place in finding
    assert message in finding
    assert "hunter2" not in finding


@pytest.mark.parametrize(
    "connection_string",
    [
        "${env:MONGODB_CONNECTION_STRING}",
        "mongodb+srv://cluster.example/?authMechanism=MONGODB-X509",
        "mongodb://${env:USER}:${file:/run/secrets:password}@a:1,b:2/?replicaSet=rs0",
    ],
)
def test_mongodbs_connection_string_may_say_who_reads(connection_string: str) -> None:
    login = "  user: orders_connector\n  password: ${env:PASSWORD}\n"
    text = MONGODB.replace(login, "").replace(
        "mongodb://mongo-1:27017,mongo-2:27017/?replicaSet=rs0", connection_string
    )
    database = parse_spec(text).database
    assert (database.connection_string, database.user, database.password) == (connection_string, "", "")
    assert (database.host, database.port) == ("", "")


def test_of_mongodb_nothing_but_the_connector_is_known() -> None:
    spec = parse_spec(MONGODB)
    assert (spec.outbox.adopted, spec.outbox.columns.id, spec.outbox.headers) == (True, "_id", {})
    with pytest.raises(ConfigError, match="cdc-outbox supports only the connector of mongodb"):
        _ = spec.database.kind.dialect
    assert parse_spec(f"{MONGODB}outbox: {{columns: {{id: event}}}}\n").outbox.columns.id == "event"


@pytest.mark.parametrize(("kind", "port"), [("sqlserver", "1433"), ("oracle", "1521")])
def test_of_a_database_without_statements_here_nothing_but_the_connector_is_known(kind: str, port: str) -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{schema: APP}}\n".replace("postgresql", kind))
    assert (spec.database.port, spec.outbox.adopted, spec.database.server_id) == (port, True, "")
    with pytest.raises(ConfigError, match=f"cdc-outbox supports only the connector of {kind}") as caught:
        _ = spec.database.kind.dialect
    assert caught.value.field == "database.kind"
