"""Each shell completes what its documented line makes it complete: bash, zsh and fish themselves are asked."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from select import select

import pytest
from click.shell_completion import ShellComplete

from cdc_outbox.cli import cli
from cdc_outbox.cli.completion import PROGRAM, VARIABLE
from cdc_outbox.debezium.explanations import explanations
from cdc_outbox.testing.process import ProcessRecord
from tests.support.patience import patience

CLEAN = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
ZSHRC = r"""
autoload -Uz compinit && compinit -D
eval "$(cdc-outbox completion zsh)"
show() { print -r -- "<<$BUFFER>>"; exit }
zle -N show
bindkey '^X' show
PS1='ready> '
"""


def run(*command: str, **variables: str) -> str:
    env = CLEAN | variables
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=patience(), check=True)
    assert done.stderr == ""
    return done.stdout


def bash(line: str, folder: Path, **variables: str) -> str:
    """Return what bash makes of a line when its user asks for what follows."""
    script = folder / "cdc-outbox"
    script.write_text(run("cdc-outbox", "completion", "bash"))
    asks = f"""source {script}
COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_cdc_outbox_completion cdc-outbox; echo "${{COMPREPLY[@]}}" """
    return _ended(line, run("bash", "-c", asks, **variables).strip())


def fish(line: str, folder: Path, **variables: str) -> str:
    """Return what fish makes of it."""
    script = folder / "fish" / "completions" / "cdc-outbox.fish"
    script.parent.mkdir(parents=True)
    script.write_text(run("cdc-outbox", "completion", "fish"))
    own = {"XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")}
    return _ended(line, run("fish", "-c", 'complete -C "$line"', line=line, **own, **variables).partition("\t")[0])


def zsh(line: str, folder: Path, **variables: str) -> str:
    """Return what an interactive zsh makes of it, typed into a terminal."""
    (folder / ".zshrc").write_text(ZSHRC)
    ours, theirs = os.openpty()
    env = CLEAN | {"TERM": "dumb", "ZDOTDIR": str(folder)} | variables
    with subprocess.Popen(
        ["zsh", "-d", "-i"], env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as shell:
        try:
            os.close(theirs)
            seen = _read_until("ready> ", ours)
            os.write(ours, f"{line}\t\x18".encode())
            seen = _read_until(">>", ours)
            shell.wait(patience())
        finally:
            shell.kill()
            os.close(ours)
    return seen.partition("<<")[2].partition(">>")[0].rstrip()


def _ended(line: str, last: str) -> str:
    return f"{line.rpartition(' ')[0]} {last.strip()}"


def _read_until(word: str, terminal: int) -> str:
    seen = b""
    while word.encode() not in seen:
        assert select([terminal], [], [], patience())[0], seen
        try:
            octets = os.read(terminal, 4096)
        except OSError:  # the shell has gone
            octets = b""
        assert octets, seen
        seen += octets
    return seen.decode()


@pytest.mark.parametrize("shell", [bash, zsh, fish])
def test_commands_and_names_of_contexts_are_completed(shell: Callable[..., str], tmp_path: Path) -> None:
    contexts = tmp_path / "contexts.yaml"
    contexts.write_text("contexts: {staging: {dsn: dbname=x}, production: {dsn: dbname=y}}")
    for line, completed in {
        "cdc-outbox depl": "cdc-outbox deploy-connector",
        "cdc-outbox plan x.yaml --context st": "cdc-outbox plan x.yaml --context staging",
    }.items():
        folder = tmp_path / line.split()[1]
        folder.mkdir()
        assert shell(line, folder, CDC_OUTBOX_CONTEXTS=str(contexts)) == completed


@pytest.mark.parametrize(
    "line", ["adopt", "deploy-connector", "lint", "offsets show", "pause", "recover", "status", "watch"]
)
def test_files_are_completed(line: str) -> None:
    offers = ShellComplete(cli, {}, PROGRAM, VARIABLE).get_completions(line.split(), "conn")
    assert [(offer.type, offer.value) for offer in offers] == [("file", "conn")]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("cdc-outbox parked re", "retry"),
        ("cdc-outbox deploy-connector --stab", "--stable-for"),
        ("cdc-outbox completion z", "zsh"),
        ("cdc-outbox explain sp", " ".join(code for code in explanations() if code.startswith("SP"))),
    ],
)
def test_inner_commands_options_and_choices_are_offered(line: str, offered: str) -> None:
    asked = {"_CDC_OUTBOX_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    assert [offer.partition(",")[2] for offer in run("cdc-outbox", **asked).splitlines()] == offered.split()


def test_the_parts_of_a_stack_are_offered(tmp_path: Path) -> None:
    asked = {"_CDC_OUTBOX_COMPLETE": "bash_complete", "COMP_WORDS": "cdc-outbox stack logs k", "COMP_CWORD": "3"}
    assert run("cdc-outbox", **asked, TMPDIR=str(tmp_path)).strip() == ""
    with subprocess.Popen(["sleep", "60"]) as process:
        for part in ("kafka", "postgres"):
            folder = tmp_path / f"cdc-outbox-{os.geteuid()}-default" / part
            folder.mkdir(parents=True, mode=0o700)
            ProcessRecord.of(process.pid).write(folder / "process.json")
        assert run("cdc-outbox", **asked, TMPDIR=str(tmp_path)) == "plain,kafka\n"
        process.kill()
