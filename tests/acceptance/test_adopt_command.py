import json
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.foreign_connector import FOREIGN, FOREIGN_SPEC, SECRET
from tests.support.specs import MINIMAL


def run(*arguments: str | Path, text: str | bytes = "") -> tuple[int, str, str]:
    done = run_command("adopt", *arguments, text=text)
    return done.returncode, done.stdout, done.stderr


def test_a_file_becomes_a_spec_and_what_was_told_goes_to_stderr(tmp_path: Path) -> None:
    (tmp_path / "orders.json").write_text(json.dumps(FOREIGN, indent=2))
    code, out, err = run(tmp_path / "orders.json", "--aggregate-type", "order")
    assert (code, out) == (0, FOREIGN_SPEC)
    assert err.endswith("orders-connector: messages stay the same\n")
    assert "heartbeat.interval.ms: note CC952" in err


def test_what_is_not_carried_over_is_exit_code_3_and_the_spec_is_written_all_the_same(tmp_path: Path) -> None:
    properties = "".join(f"{option}={value}\n" for option, value in FOREIGN.items() if option != "plugin.name")
    spec = tmp_path / "orders.yaml"
    code, out, err = run("-", "-f", spec, "--output", "json", text=f"{properties}database.sslpassword={SECRET}\n")
    assert (code, out) == (3, "")
    wrote, _, told = err.partition("\n")
    assert wrote == f"wrote {spec}"
    assert {"CC954", "CC955"} <= {finding["code"] for finding in json.loads(told)["findings"]}
    assert SECRET not in err + spec.read_text()
    assert spec.read_text().startswith("# Made by `cdc-outbox adopt` from standard input.\n")
    code, out, err = run("-", "-f", spec, text=properties)
    assert (code, out, "already exists" in err) == (2, "", True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "CC002"),
        (b"\xff", "CC002"),
        ("x" * 2_000_000, "SP001"),
        ('{"name": "x", "connector.class": "FileStreamSinkConnector"}', "CC957"),
        (MINIMAL, "CC003: the file is a spec, not a connector configuration. `cdc-outbox render` prints"),
        (json.dumps([FOREIGN, {**FOREIGN, "name": "other"}]), "stdin has orders-connector, other"),
    ],
)
def test_what_is_no_outboxs_configuration_is_a_wrong_use(text: str | bytes, said: str) -> None:
    code, out, err = run("-", text=text)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [(), ("--connector", "x"), ("no/such.json",), ("-", "--aggregate-type", "a:b")])
def test_a_wrong_call_is_a_wrong_use(arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments, text=json.dumps(FOREIGN))
    assert (code, out, "Traceback" in err) == (2, "", False)


def test_one_of_several_connectors_is_chosen_by_its_name() -> None:
    code, out, _ = run("-", "--connector", "other", text=json.dumps([FOREIGN, {**FOREIGN, "name": "other"}]))
    assert (code, "name: other\n" in out) == (0, True)
