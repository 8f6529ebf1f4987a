"""How every command behaves, whatever it is for: help, variables, streams, colour, offers."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cdc_outbox.cli import cli, main
from cdc_outbox.cli.output import ExitCode
from cdc_outbox.cli.times import Duration, Time
from tests.support.specs import ORDERS

DOCS = Path(__file__).parents[2] / "docs"
ROOT = click.Context(cli, **cli.context_settings, info_name="cdc-outbox")


def every_command() -> Iterator[tuple[str, ...]]:
    def inside(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        if isinstance(command, click.Group):
            for name in command.list_commands(ROOT):
                inner = command.get_command(ROOT, name)
                assert inner is not None
                yield from inside(inner, (*path, name))

    yield from inside(cli, ())


COMMANDS = sorted(every_command())
each_command = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


def command_of(path: tuple[str, ...]) -> click.Command:
    command: click.Command | None = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(ROOT, name)
    assert command is not None
    return command


def options_of(path: tuple[str, ...]) -> list[click.Option]:
    return [option for option in command_of(path).params if isinstance(option, click.Option)]


class Ran:
    """What came of one call in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        before, sys.argv = sys.argv, ["cdc-outbox", *arguments]
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            sys.argv = before
        self.code = ended.value.code
        self.stdout, self.stderr = capsys.readouterr()


@each_command
def test_help_has_an_example_that_names_the_command(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, *path, "--help")
    assert (ran.code, ran.stderr) == (0, "")
    examples = re.search(r"Examples?:\n((?: +\S.*\n)+)", ran.stdout)
    assert examples is not None
    assert " ".join(["cdc-outbox", *path]) in examples[1]


@each_command
def test_examples_of_help_have_options_that_there_are(path: tuple[str, ...]) -> None:
    examples = re.findall(r"^ {6}(?:\w+=\S+ )?cdc-outbox (.*)", command_of(path).help or "", re.MULTILINE)
    for example in examples:
        words = example.partition(" | ")[0].split()
        named = max((other for other in COMMANDS if tuple(words[: len(other)]) == other), key=len)
        known = {name for option in options_of(named) for name in (*option.opts, *option.secondary_opts, "--help")}
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given <= known, example


def variables_of(option: click.Option) -> list[str]:
    return [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())


WITHOUT_VARIABLE = {
    *("--accept", "--accept-shorter-horizon", "--all", "--earlier-events", "--force", "--keep", "--new-incarnation"),
    *("--offsets-only", "--purge", "--replace", "--revoke", "--run-effects-again", "--to-offset", "--without-topics"),
    "--yes",
}
"""Options that confirm or decide what one call destroys."""


@each_command
def test_a_variable_is_named_as_its_option_and_shown_in_the_help(path: tuple[str, ...]) -> None:
    shown = " ".join(CliRunner().invoke(cli, [*path, "--help"]).stdout.split())
    for option in options_of(path):
        if option.name == "version":
            continue
        names = sorted((name for name in option.opts if name.startswith("--")), key=len, reverse=True)
        if names[0] in WITHOUT_VARIABLE:
            assert variables_of(option) == [], names
            continue
        assert variables_of(option) == [f"CDC_OUTBOX_{name[2:].replace('-', '_').upper()}" for name in names]
        assert f"env var: {', '.join(variables_of(option))}" in shown


def test_every_exception_is_an_option() -> None:
    known = {name for path in COMMANDS for option in options_of(path) for name in option.opts}
    assert known >= WITHOUT_VARIABLE


def said_first(text: str | None) -> str:
    """Return the clause with which a help begins; what a command adds stands behind it."""
    return re.split(r"; |: |\. |\.$", text or "")[0]


OF_AN_INBOX = ("baseline", "parked", "purge-inbox", "reset")
"""Commands about an inbox alone: their --dsn is the inbox's database, and --inbox-dsn another name for it."""


def test_an_option_means_the_same_for_every_command() -> None:
    """Also a variable, which has the option's name: a value for one command is right for all."""
    meanings: dict[str, dict[object, list[str]]] = {}
    for path in COMMANDS:
        for option in options_of(path):
            for name in option.opts:
                if name == "--dsn" and path[0] in OF_AN_INBOX:
                    continue
                # What a range is may differ: the shortest interval is no shortest timeout.
                choices = tuple(getattr(option.type, "choices", ()))
                form = (type(option.type), choices, option.metavar, option.is_flag, option.multiple)
                meaning = (said_first(option.help), *form, option.secondary_opts)
                meanings.setdefault(name, {}).setdefault(str(meaning), []).append(" ".join(path))
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def test_what_takes_a_time_takes_a_time_or_a_duration_with_its_unit() -> None:
    for path in COMMANDS:
        for option in options_of(path):
            timed = {"DURATION": Duration, "TIME": Time}.get(option.metavar or "")
            assert isinstance(option.type, timed or object), (path, option.opts)
            assert (timed is not None) == isinstance(option.type, Duration | Time), (path, option.opts)
            named_for_a_unit = re.search(r"-(ms|seconds|minutes|hours|days|weeks)$|second|minute", option.opts[0])
            assert named_for_a_unit is None, (path, option.opts)
            assert not isinstance(option.type, click.types.FloatRange) or option.opts == ["--rate"], (path, option.opts)


ARGUMENTS = {
    "SPEC": "The spec of a pipeline.",
    "[SPEC]": "The spec of a pipeline.",
    "SPEC...": "Specs of pipelines, and folders of them.",
    "NAME|SPEC": "A connector, by its name or by its spec.",
    "NAME|PATTERN|SPEC...": (
        "Connectors, by name, by pattern such as 'orders-*', or by spec; a folder/ selects the specs in it."
    ),
    "[NAME|PATTERN|SPEC]...": (
        "Connectors, by name, by pattern such as 'orders-*', or by spec; a folder/ selects the specs in "
        "it. Default: all connectors."
    ),
    "MODULE:ATTRIBUTE": "A Consumer or an AsyncConsumer; MODULE may be in the current folder.",
    "PARKED_ID": "The id that `parked list` shows.",
    "PARKED_ID...": "The id that `parked list` shows.",
    "[PARKED_ID]...": "The id that `parked list` shows.",
}
"""What several commands take. SPEC where they need what it says, NAME|SPEC where Connect knows the rest."""
OF_ONE_COMMAND = {
    ("adopt",): "[CONFIG]",
    ("completion",): "{bash|zsh|fish}",
    ("explain",): "[CODE]",
    ("lint",): "SPEC|CONFIG...",
    ("monitor", "health"): "URL",
    ("new",): "NAME",
    ("simulate",): "SPEC|CONFIG",
    ("stack", "logs"): "[PART]",
    ("stack", "restart"): "[PART]",
}


@each_command
def test_an_argument_means_the_same_for_every_command(path: tuple[str, ...]) -> None:
    for argument in command_of(path).params:
        if isinstance(argument, click.Argument):
            metavar = argument.make_metavar(click.Context(command_of(path)))
            assert argument.help
            if path in OF_ONE_COMMAND:
                assert metavar == OF_ONE_COMMAND[path]
            else:
                assert argument.help == ARGUMENTS[metavar]


def test_one_option_says_what_is_printed_and_another_one_where() -> None:
    for path in COMMANDS:
        options = {each.opts[0]: each for each in command_of(path).params if isinstance(each, click.Option)}
        formats = [name for name, each in options.items() if "json" in getattr(each.type, "choices", ())]
        assert "--json" not in options, path
        assert set(formats) <= {"--output", "--log-format"}, path
        assert "--output" not in options or "--output" in formats, path


WITHOUT_DOCUMENT = {
    ("completion",): "prints a script",
    ("consume",): "its log is its output: --log-format",
    ("contract", "export"): "prints the contract, which is JSON",
    ("parked", "export"): "prints JSON lines",
    ("explain",): "prints prose",
    ("new",): "prints a spec",
    ("relay",): "its log is its output: --log-format",
    ("render",): "prints a configuration",
    ("monitor", "health"): "prints the answer of /health, which is JSON",
    ("spec-schema",): "prints a JSON Schema",
    ("stack", "logs"): "prints a log",
}
"""Commands that have no result beside what they print: all others print one JSON document too."""


@pytest.mark.parametrize("path", [
    path for path in COMMANDS
    if not isinstance(group := command_of(path), click.Group) or group.invoke_without_command
], ids=" ".join)  # fmt: skip
def test_every_command_prints_its_result_as_json_too(path: tuple[str, ...]) -> None:
    documents = [
        each for each in options_of(path) if "--output" in each.opts and "json" in getattr(each.type, "choices", ())
    ]
    assert bool(documents) != (path in WITHOUT_DOCUMENT)
    for option in documents:
        assert (option.default, option.help) in {
            ("text", "Print text, or JSON for programs."),
            ("text", "Print text, or JSON for programs; one object a line."),  # of what runs until it is stopped
        }


def test_every_kind_of_document_is_in_the_documentation() -> None:
    sources = "".join(path.read_text() for path in (DOCS.parent / "cdc_outbox" / "cli").glob("*.py"))
    kinds = set(re.findall(r"""(?:document|as_json)\("(\w+)",""", sources))
    listed = re.findall(r"^\| `(\w+)` \|", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert sorted(kinds) == listed


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["lint", str(ORDERS), "--output", "json"], {"CDC_OUTBOX_OUTPUT": "json"}),
        (["contexts", "--output=json"], {"CDC_OUTBOX_OUTPUT": "json"}),
        (["spec-schema", "--page"], {"CDC_OUTBOX_PAGE": "true"}),
    ],
)
def test_a_variable_does_what_its_option_does(arguments: list[str], variables: dict[str, str]) -> None:
    bare = arguments[: next(place for place, word in enumerate(arguments) if word.startswith("--"))]
    told = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert told.exception is None
    assert CliRunner().invoke(cli, bare, standalone_mode=False, env=variables).stdout == told.stdout
    assert CliRunner().invoke(cli, bare, standalone_mode=False).stdout != told.stdout


@each_command
def test_wrong_use_is_said_on_stderr_alone(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, *path, "--no-such-option")
    assert (ran.code, ran.stdout) == (ExitCode.USAGE, "")
    assert "error: no such option" in ran.stderr


@each_command
def test_an_option_that_is_mistyped_is_offered(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for option in options_of(path):
        longest = max(option.opts, key=len)
        if len(longest) > len("--dsn"):
            assert f"'{longest}'" in Ran(capsys, *path, f"{longest}x").stderr


def test_a_connection_string_without_quotation_marks_is_told_and_not_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "init", str(ORDERS), "--dsn", "host=nowhere", "port=1", "user=me", "password=secret")
    assert (ran.code, "put it in quotation marks" in ran.stderr, "secret" in ran.stderr) == (2, True, False)


@pytest.mark.parametrize("path", [path for path in COMMANDS if isinstance(command_of(path), click.Group)], ids=" ".join)
def test_a_word_that_is_no_command_is_answered_with_those_that_are(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    known = {other[-1] for other in COMMANDS if other[:-1] == path and other}
    ran = Ran(capsys, *path, "connectors/0.yaml")
    assert known <= set(re.findall(r"[\w-]+", ran.stderr.partition("no such command")[2]))


@pytest.mark.parametrize("name", [path[0] for path in COMMANDS if len(path) == 1])
def test_a_command_that_is_mistyped_is_offered(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, f"{name}x")
    assert (ran.code, ran.stdout) == (ExitCode.USAGE, "")
    assert f"Did you mean '{name}'?" in ran.stderr


def test_a_command_like_none_lists_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    stderr = Ran(capsys, "xyzzy").stderr
    assert all(path[0] in stderr for path in COMMANDS if len(path) == 1)


def test_what_other_tools_commands_are_said_to_be_here_exists() -> None:
    page = (ORDERS.parents[1] / "docs" / "deploying.md").read_text()
    table = page[page.index("## If you know another tool") :].split("\n\n")[1]
    ours = [line.split(" | ")[1] for line in table.splitlines()[2:]]
    named = {tuple(words.split()) for cell in ours for words in re.findall(r"`([a-z][a-z -]*)`", cell)}
    here = {word for path in COMMANDS for word in path}
    assert {words[0] for words in named} <= here
    for command, *more in named:
        for option in (each for each in more if each.startswith("--")):
            taking = [options_of(path) for path in COMMANDS if path == (command,)]
            assert option == "--context" or option in {opt for found in taking for each in found for opt in each.opts}


@pytest.mark.parametrize(
    "arguments",
    [
        ["render", str(ORDERS)],
        ["lint", str(ORDERS), "--output", "json"],
        ["contexts", "--output=json"],
        ["spec-schema"],
    ],
)
def test_data_is_alone_on_stdout(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, *arguments)
    assert ran.code == 0
    assert json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["render", "/nonexistent.yaml"], ExitCode.USAGE),
        (["render", str(ORDERS), "--target", "strimzi"], ExitCode.USAGE),
        (["lint", "/nonexistent.yaml"], ExitCode.USAGE),
        (["explain", "XX999"], ExitCode.USAGE),
        (["status", "--connect-url", "http://127.0.0.1:1", "--connect-patience", "0s"], ExitCode.RETRY),
        (["delete", str(ORDERS), "--connect-url", "http://127.0.0.1:1", "--connect-patience", "0s"], ExitCode.RETRY),
        (["pause", "orders", "--connect-url", "http://127.0.0.1:1", "--connect-patience", "0s"], ExitCode.RETRY),
        (["status", "--context", "nowhere"], ExitCode.USAGE),
        (["preflight", str(ORDERS), "--dsn", "postgresql://127.0.0.1:1/x"], ExitCode.RETRY),
    ],
)
def test_a_failure_says_nothing_on_stdout(
    arguments: list[str], code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(capsys, *arguments)
    assert (ran.code, ran.stdout) == (code, "")
    assert "\x1b" not in ran.stderr


def test_a_question_is_no_part_of_a_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: "n" if sys.stdout.write(prompt) else "")
    ran = Ran(capsys, "prune", str(ORDERS), "--dsn=x", "--output=json")
    assert (ran.code, ran.stdout) == (ExitCode.INTERRUPTED, "")
    assert "cannot be published again. Continue?" in ran.stderr


def test_exit_codes_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    page, shown = (DOCS / "commands.md").read_text(), " ".join(Ran(capsys, "--help").stdout.split())
    for code in ExitCode:
        assert re.search(rf"^\| {code} \|", page, re.MULTILINE)
        assert re.search(rf"\b{code} ", shown)


def in_a_terminal(*arguments: str, **variables: str) -> bytes:
    """Return what a terminal gets to see of one call."""
    ours, theirs = os.openpty()
    clean = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "xterm", **variables}
    command = [sys.executable, "-m", "cdc_outbox", *arguments]
    with subprocess.Popen(command, env=clean, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        seen = b""
        while True:
            try:
                octets = os.read(ours, 4096)
            except OSError:  # whoever wrote there has gone
                break
            if not octets:
                break
            seen += octets
    os.close(ours)
    return seen


@pytest.mark.parametrize(("variables", "is_red"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colour_is_for_terminals_that_want_it(variables: dict[str, str], *, is_red: bool) -> None:
    seen = in_a_terminal("render", "/nonexistent.yaml", **variables)
    assert b"error:" in seen
    assert (b"\x1b[" in seen) is is_red
