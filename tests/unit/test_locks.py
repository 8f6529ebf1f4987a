"""infra/setup downloads only what infra/locks lists: each package in one version, with the digests of its files."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "infra" / "locks").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS: dict[str, list[Any]] = PROJECT["dependency-groups"]
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
BUILD: list[str] = [*PROJECT["build-system"]["requires"], *GROUPS["build"]]
RUN: list[str] = [*PROJECT["project"]["dependencies"], *EXTRAS["postgres"], *EXTRAS["testing"]]
DEV: list[str] = [each for each in GROUPS["dev"] if isinstance(each, str)]
_LINE = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>[\w.]+)(?: ; [^\\]+)?(?P<digests>(?: --hash=sha256:[0-9a-f]{64})+)"
)


def locked(name: str) -> dict[str, str]:
    """Return the versions in a file of infra/locks, by the packages' names."""
    lines = (ROOT / "infra" / "locks" / f"{name}.txt").read_text().replace(" \\\n   ", "").splitlines()
    found = [_LINE.fullmatch(line) for line in lines]
    assert [line for line, match in zip(lines, found, strict=True) if match is None] == []
    versions = {match["name"]: match["version"] for match in found if match}
    assert len(versions) == len(lines), "one version of each for every Python"
    return versions


@pytest.mark.parametrize(
    ("name", "requirements"),
    [("build", BUILD), ("run", RUN), ("tests", [*BUILD, *RUN, *DEV]), ("lock", GROUPS["lock"])],
)
def test_each_package_has_one_version_that_the_project_takes_and_digests(
    name: str, requirements: Iterable[str]
) -> None:
    versions = locked(name)
    wanted = [Requirement(requirement) for requirement in requirements]
    assert [str(each) for each in wanted if versions.get(canonicalize_name(each.name), "") not in each.specifier] == []


def test_all_of_them_are_of_one_resolution() -> None:
    assert {path.stem for path in LOCKS} == {"build", "lock", "run", "tests"}
    assert locked("build").items() | locked("run").items() <= locked("tests").items()


def test_they_name_no_index() -> None:
    assert [path.name for path in LOCKS if "://" in path.read_text() or "index" in path.read_text()] == []
