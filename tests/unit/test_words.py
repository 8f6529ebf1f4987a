"""The words of everything that a user reads: help, errors, hints, logs, findings, specs and pages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cdc_outbox.cli import cli

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "cdc_outbox"

RETIRED = [
    r"(?<!`)\b(some|any|every|no)body\b",  # `nobody` is a user of the system
    r"\bwhoever\b",
    r"\bshall\b",
    r"\bmend(s|ed|ing)?\b",
    r"\b(is|are|was|were|to) be told\b",
    r"\btold\b",
    r"\btells? (what|which|how|where|when|whether)\b",
    r"\bsay (what|which|how|where|so|at least)\b",
    r"\b(come|comes|came|coming) up\b",
    r"\b(go|goes|going|went|gone) on\b",
    r"\b(take|takes|took|taken) for\b",
    r"\b(is|are) to be\b",
    r"\b(would|had) have to\b",
    r"\bsuch an?\b",
    r"\b(ours|theirs)\b",
    r"\banew\b",
    r"(^|[.;:] )what (is|are|was|were|has|had)\b",
]
"""What the style guide replaces: an actor without a name, a riddle, or a verb that is not the field's."""
_RETIRED = re.compile("|".join(f"(?:{word})" for word in RETIRED), re.IGNORECASE)

VERB = re.compile(
    "Accept|Check|Compare|Create|Delete|Deliver|Deploy|Diagnose|Explain|Export|List|Manage|Pause|Print|Publish|"
    "Restart|Resume|Retry|Run|Set|Show|Simulate|Skip|Start|Stop|Trust|Write"
)


def literals(source: str) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings, with ``{}`` for each value in them."""

    def inside(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield from inside(part.value)
        elif isinstance(node, ast.Constant):
            yield str(node.value)
        else:
            for child in ast.iter_child_nodes(node):
                yield from inside(child)

    return inside(ast.parse(source))


def texts() -> Iterator[tuple[str, str]]:
    """Yield each file and a text in it that a user can see."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        yield from ((name, text) for text in literals(path.read_text()) if " " in text)
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *PACKAGE.rglob("*.md"),
        *PACKAGE.rglob("*.schema.json"),
    ]
    for path in sorted(pages):
        yield from ((str(path.relative_to(ROOT)), line) for line in path.read_text().splitlines())
    for words, command in commands():
        shown = [command.help, command.epilog, *(getattr(each, "help", None) for each in command.params)]
        yield from ((f"cdc-outbox {words}".rstrip(), text) for text in shown if text)


def docstrings(source: str) -> Iterator[str]:
    """Yield the lines of a module's docstrings, also those of attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield from str(node.value.value).splitlines()


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its words behind ``cdc-outbox``."""

    def inside(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
        yield words, command
        if isinstance(command, click.Group):
            context = click.Context(command, **command.context_settings)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from inside(inner, f"{words} {name}".lstrip())

    yield from inside(cli, "")


def test_no_text_has_a_retired_word() -> None:
    found = [f"{name}: {text}" for name, text in texts() if _RETIRED.search(text)]
    assert found == []


def test_no_docstring_has_a_retired_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in docstrings(path.read_text())
        if _RETIRED.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ["Nobody reads the slot.", "the file that shall be read", "What is missing is listed.", "as it is to be"]
)
def test_a_retired_word_is_found(text: str) -> None:
    assert _RETIRED.search(text)


def test_texts_of_every_kind_are_looked_at() -> None:
    names = {name for name, _ in texts()}
    assert {"README.md", "docs/writing.md", "docs/findings.md", "cdc-outbox parked retry", "cdc-outbox"} <= names
    assert {"cdc_outbox/errors.py", "cdc_outbox/debezium/lint/router.py", "cdc_outbox/consumer/group.py"} <= names
    source = 'def f():\n    """Not this."""\n    raise E(f"no {a} in {b}", hint="Look " "twice.") from g("deep down")\n'
    assert [text for text in literals(source) if " " in text] == ["no {} in {}", "Look twice.", "deep down"]


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_a_commands_help_begins_with_a_short_verb_phrase(words: str) -> None:
    command = dict(commands())[words]
    summary = (command.help or "").partition("\n")[0]
    assert len(summary) < 60
    assert summary.endswith(".")
    assert VERB.fullmatch(re.split(r"\W", summary)[0])
    assert command.short_help is None, "the first line of the docstring is the short help"


def test_the_list_of_commands_has_the_first_lines_of_their_help() -> None:
    shown = cli.get_help(click.Context(cli, **cli.context_settings, info_name="cdc-outbox", terminal_width=110))
    for words, command in commands():
        if words and " " not in words:
            assert re.search(
                rf"^  {words} +{re.escape((command.help or '').partition(chr(10))[0])}$", shown, re.MULTILINE
            )


def test_an_options_help_is_a_sentence() -> None:
    for words, command in commands():
        for parameter in command.params:
            shown = str(getattr(parameter, "help", None) or "").partition("  [default: ")[0]
            assert re.fullmatch(r"[A-Z].*\.", shown, re.DOTALL), (words, parameter.name, shown)
