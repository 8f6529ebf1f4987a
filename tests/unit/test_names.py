"""What is named on the command line: by a name, a file or a folder, and mistaken for each other."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cdc_outbox.cli import cli
from cdc_outbox.cli.connectors import names_of, refuse_unknown, specs_of
from cdc_outbox.errors import CdcOutboxError, ConfigError, ConnectorNotFoundError, ConnectUnavailableError
from cdc_outbox.text_files.document import did_you_mean
from tests.support.connect_server import Answer, Asked, answering, connect_that_answers
from tests.support.specs import MINIMAL


def complaint(*arguments: str) -> CdcOutboxError:
    error = CliRunner().invoke(cli, arguments).exception
    assert isinstance(error, CdcOutboxError)
    return error


@pytest.mark.parametrize(
    ("word", "offer"),
    [
        ("deploy", "deploy-connector"),  # not replay, which is more alike
        ("park", "parked"),
        ("off", "offsets"),
        ("deploy-conector", "deploy-connector"),
        ("replya", "replay"),
        ("de", ""),
        ("xyzzy", ""),
    ],
)
def test_what_goes_on_where_a_word_ends_is_nearer_than_what_is_alike(word: str, offer: str) -> None:
    known = ["replay", "parked", "delete", "deploy-connector", "offsets"]
    assert did_you_mean(word, known) == (f"Did you mean {offer!r}?" if offer else "")


@pytest.mark.parametrize(
    ("there", "hint"),
    [
        ([], "Existing connectors: none."),
        (["orders"], "Did you mean 'orders'? Existing connectors: orders."),
        (["billing", "orders"], "Did you mean 'orders'? Existing connectors: billing, orders."),
    ],
)
def test_a_name_that_does_not_exist_lists_what_does(there: list[str], hint: str) -> None:
    with pytest.raises(ConnectorNotFoundError) as caught:
        refuse_unknown("order", there)
    assert caught.value.hint == hint


@pytest.mark.parametrize("command", [["render"], ["topics", "create", "--bootstrap-servers=nowhere:1"]])
def test_a_pipelines_name_where_its_spec_is_wanted_is_told_from_a_lost_file(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint(*command, "orders").hint == "A spec is a file; `cdc-outbox new` creates one."
    assert "quotation marks" in complaint(*command, "port=27612").hint
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors" / "orders.yaml").write_text(MINIMAL)
    assert complaint(*command, "orders").hint == "Did you mean 'connectors/orders.yaml'?"
    assert complaint(*command, "lost.yaml").hint == ""


def test_a_connectors_name_where_its_configuration_is_wanted_is_told_from_a_lost_file(tmp_path: Path) -> None:
    lost = complaint("adopt", str(tmp_path / "byhand"))
    assert isinstance(lost, ConfigError)
    assert lost.hint.endswith(f"--connector {tmp_path / 'byhand'}.")


def test_a_folder_is_linted_as_the_files_in_it_that_can_be_configurations(tmp_path: Path) -> None:
    for name, text in {
        "orders.yaml": MINIMAL,
        "twin.yml": MINIMAL,
        "cdc-outbox.yaml": "contexts: {}",
        "README.md": "no spec",
    }.items():
        (tmp_path / name).write_text(text)
    found = CliRunner().invoke(cli, ["lint", str(tmp_path)])
    assert "orders.yaml" in found.stdout
    assert "twin.yml" in found.stdout
    assert not {"README.md", "cdc-outbox.yaml"} & set(found.stdout.replace(":", " ").replace("/", " ").split())
    (tmp_path / "empty").mkdir()
    assert complaint("lint", str(tmp_path / "empty")).hint.endswith(".yaml, .yml, .json or .properties.")


def test_a_purge_without_a_spec_is_refused_before_anybody_is_asked() -> None:
    with answering(lambda _asked: (200, [])) as (url, asked):
        refused = complaint("delete", "byhand", "--purge", "--connect-url", url)
    assert isinstance(refused, ConfigError)
    assert "adopt --connector byhand" in refused.hint
    assert asked == []


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
@pytest.mark.parametrize("more", [[], ["--failed"]])
def test_what_somebody_halted_is_not_restarted_and_not_waited_for(state: str, more: list[str]) -> None:
    def answer(asked: Asked) -> Answer:
        status = {"connector": {"state": state, "worker_id": "w:1"}, "tasks": []}
        return 200, status if asked.path.endswith("/status") else ["orders"]

    with answering(answer) as (url, asked):
        refused = complaint("restart", "orders", *more, "--connect-url", url, "--timeout", "1s")
    assert str(refused) == f"orders is {state}; a restart does not change that"
    assert "cdc-outbox resume" in refused.hint
    assert {each.method for each in asked} == {"GET"}


@pytest.mark.parametrize("command", [["status"], ["offsets", "show", "orders"]])
def test_whoever_is_waited_for_is_named_while_it_lasts(command: list[str]) -> None:
    ran = CliRunner().invoke(cli, [*command, "--connect-url", "http://127.0.0.1:9", "--connect-patience", "0.3s"])
    assert isinstance(ran.exception, ConnectUnavailableError)
    assert "waiting: no Kafka Connect worker answers" in ran.stderr
    assert ran.stdout == ""


def test_a_pattern_names_all_connectors_that_are_called_so() -> None:
    there = ["billing", "orders-1", "orders-2", "orders-[x]"]

    def names(*asked: str) -> list[str]:
        with connect_that_answers(config=(200, there)) as (client, _):
            return names_of(asked, client)

    assert names("orders-?", "billing", "bill*") == ["orders-1", "orders-2", "billing"]
    assert names("orders-[x]") == ["orders-[x]"]
    assert names() == sorted(there)
    with pytest.raises(ConnectorNotFoundError, match="'shop-\\*'"):
        names("billing", "shop-*")


def test_a_folder_stands_for_the_specs_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "connectors").mkdir()
    for name in ("billing", "orders"):
        (tmp_path / "connectors" / f"{name}.yaml").write_text(MINIMAL.replace("name: orders", f"name: {name}"))
    there = ["billing", "connectors", "orders", "shop"]
    with connect_that_answers(config=(200, there)) as (client, _):
        assert names_of(["connectors/", "shop"], client) == ["billing", "orders", "shop"]
        assert names_of(["connectors"], client) == ["connectors"]
    assert sorted(specs_of(["connectors/", "shop"])) == ["billing", "orders"]


def test_where_there_are_no_connectors_that_is_said_and_no_table_shown() -> None:
    with answering(lambda _asked: (200, [])) as (url, _):
        ran = CliRunner().invoke(cli, ["status", "--connect-url", url])
    assert (ran.exception, ran.stdout) == (None, "")
    assert "there are no connectors; `cdc-outbox deploy-connector SPEC` creates one" in ran.stderr


@pytest.mark.parametrize(("command", "state", "word"), [("pause", "PAUSED", "paused"), ("stop", "STOPPED", "stopped")])
def test_a_halt_names_the_slot_that_keeps_wal_meanwhile(command: str, state: str, word: str) -> None:
    config = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "slot.name": "orders_outbox"}

    def answer(asked: Asked) -> Answer:
        status = {"connector": {"state": state, "worker_id": "w:1"}, "tasks": []}
        return 200, status if asked.path.endswith("/status") else config if "/config" in asked.path else ["orders"]

    with answering(answer) as (url, _):
        ran = CliRunner().invoke(cli, [command, "orders", "--connect-url", url])
    assert ran.exception is None, ran.stderr
    assert f"orders: {word}; the slot orders_outbox keeps WAL on the database's disk until it is resumed" in ran.stderr
