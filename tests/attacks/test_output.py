"""What others wrote commands no terminal and no CI runner, wherever a command prints it."""

import json
import logging
import re
from pathlib import Path

import pytest

from cdc_outbox.cli.output import complain, paint, say
from cdc_outbox.cli.running import FORMATS
from cdc_outbox.errors import ConfigError, ConnectorFailedError
from cdc_outbox.finding import Finding, Location, Severity
from cdc_outbox.redaction import counted, safe_json
from tests.support.commands import run_command
from tests.support.specs import ORDERS

HOSTILE = "a\x1b]0;title\x07\x1b[2J\r\x7f\x85\x9b2J\u202e\u2066\u2028\ud800b"
COMMANDS = "\n::error file=x::planted\n  ::stop-commands::t\n\u3000::add-mask::x\n##[set-env name=a]b\n##vso[task.x]y"


def is_harmless(printed: str) -> bool:
    plain = printed.replace("\n", "").replace("\t", "")
    return (
        plain.isprintable()
        and not re.search(r"^\s*::", printed, re.MULTILINE)
        and not re.search(r"##(\[|vso)", printed)
    )


def test_a_printed_text_keeps_its_lines_and_shows_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"a\tb\r\nc{HOSTILE}{COMMANDS}")
    printed = capsys.readouterr().out
    assert is_harmless(printed.replace("\u3000", ""))
    assert printed.startswith("a\tb\nca\\x1b]0;title\\x07\\x1b[2J\\r\\x7f\\x85\\x9b2J\\u202e\\u2066\\u2028\\ud800b\n")
    assert "planted" in printed


def test_a_script_keeps_what_only_a_runner_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    say('::notice title=x::y\n"##[a]"\x1b[2J', script=True)
    assert capsys.readouterr().out == '::notice title=x::y\n"##[a]"\\x1b[2J\n'


def test_colours_are_ours_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    say(f"{paint('error:', 'red')} \x1b[32mgreen")
    assert capsys.readouterr().out == "\x1b[31merror:\x1b[0m \\x1b[32mgreen\n"


def test_a_complaint_shows_trace_findings_message_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = f"x{HOSTILE}{COMMANDS}".replace("\u3000", "")
    complain(ConnectorFailedError(hostile, trace=hostile, hint=hostile))
    finding = Finding(code="CC001", severity=Severity.ERROR, location=Location(document="a"), message=hostile)
    complain(ConfigError(hostile, findings=(finding,)))
    printed = capsys.readouterr().err
    assert printed.count("planted") == 5
    assert is_harmless(printed)
    assert "\n| ::error file=x::planted\n" in printed


def test_usage_errors_are_shown_likewise() -> None:
    done = run_command("lint", f"x{HOSTILE.replace(chr(0xD800), '')}{COMMANDS}".replace("\u3000", ""))
    assert done.returncode == 2
    assert is_harmless(done.stderr)


def test_a_simulated_row_is_shown_likewise() -> None:
    row: dict[str, object] = {
        "id": "3a8d4a0e-0000-7000-8000-000000000001",
        "aggregatetype": "customer",
        "aggregateid": f"1{COMMANDS}",
    }
    row |= {"type": "A\x1b[2J\x9b", "payload": '{"a": "\x1b\u202e"}', "sequence": 1, "source": "orders.1"}
    done = run_command("simulate", ORDERS, "--row", json.dumps(row))
    assert "planted" in done.stdout, done.stderr
    assert is_harmless(done.stdout.replace("\u3000", ""))


def test_json_stays_what_it_is() -> None:
    content = {f"k{HOSTILE}": [f"v{HOSTILE}{COMMANDS}", 1, None], "ü": "ß"}
    for indent in (None, 2):
        text = safe_json(content, indent=indent)
        assert json.loads(text) == content
        assert "ß" in text
        assert is_harmless(text.replace("\u3000", ""))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_log_record_is_shown_likewise(kind: str) -> None:
    try:
        raise ValueError(f"x{HOSTILE}{COMMANDS}".replace("\u3000", ""))
    except ValueError as error:
        made = logging.LogRecord("a", 30, "x.py", 1, "message", None, (ValueError, error, error.__traceback__))
    vars(made).update(reason=HOSTILE, other="\u202eabc", word="a\x9bb")
    line = FORMATS[kind]().format(made)
    assert "planted" in line
    assert is_harmless(line)


def test_json_is_written_at_one_place() -> None:
    cli = Path(__file__).parents[2] / "cdc_outbox" / "cli"
    assert [path.name for path in cli.glob("*.py") if "ensure_ascii=False" in path.read_text()] == []


@pytest.mark.parametrize(("count", "text"), [(0, "0 events"), (1, "1 event"), (2_000, "2,000 events")])
def test_a_count_has_its_plural(count: int, text: str) -> None:
    assert counted(count, "event") == text
