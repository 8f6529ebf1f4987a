"""What Maven fetches is what this package was made with, whatever the repository says of it."""

import os
import shutil
from pathlib import Path

import pytest

from cdc_outbox.debezium.event_router.jvm import NEWEST_PLUGINS, fetch_plugin, find_jvm
from cdc_outbox.debezium.event_router.jvm.jars import read_digests
from cdc_outbox.errors import StackError

_MAVEN = """#!/bin/sh
for argument; do
    case $argument in -Dfolder=*) fetched=${{argument#-Dfolder=}};; -DoutputDirectory=*) fetched=${{argument#*=}};; esac
done
cd {folder}/files && for name in *; do mkdir -p "$fetched"; cp -r "$name" "$fetched/"; done
"""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with what a Maven fetches that does not look at it."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "java").symlink_to(shutil.which("java") or "")
    (programs / "mvn").write_text(_MAVEN.format(folder=tmp_path))
    (programs / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.defpath}")
    files = tmp_path / "files"
    files.mkdir()
    return files


def jars() -> list[str]:
    return [name for name in read_digests() if name.endswith(".jar")]


@pytest.mark.parametrize(
    ("extra", "missing", "message"),
    [
        ("", "", "another libs/HdrHistogram-2.2.2.jar than expected: its SHA-256 is"),
        ("libs/a.jar", "", "other jars than expected: libs/a.jar"),
        ("", "libs/activation-1.1.1.jar", "other jars than expected: libs/activation-1.1.1.jar"),
    ],
    ids=["another file", "one more", "one less"],
)
def test_other_jars_are_refused_and_leave_nothing(
    served: Path, tmp_path: Path, extra: str, missing: str, message: str
) -> None:
    for name in {*jars(), *([extra] if extra else [])} - {missing}:
        (served / name).parent.mkdir(parents=True, exist_ok=True)
        (served / name).write_bytes(b"other")
    with pytest.raises(StackError, match=message):
        find_jvm(tmp_path / "cache")
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_another_archive_of_a_known_release_is_refused_and_leaves_nothing(served: Path, tmp_path: Path) -> None:
    name = f"debezium-connector-mysql-{NEWEST_PLUGINS['mysql']}-plugin.tar.gz"
    (served / name).write_bytes(b"other")
    with pytest.raises(StackError, match=f"another {name} than expected"):
        fetch_plugin(tmp_path / "cache", "mysql", NEWEST_PLUGINS["mysql"])
    assert list((tmp_path / "cache" / "plugins").iterdir()) == []


def test_each_connector_that_a_stack_can_have_is_known() -> None:
    wanted = {f"debezium-connector-{name}-{version}-plugin.tar.gz" for name, version in NEWEST_PLUGINS.items()}
    assert wanted <= read_digests().keys()
