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


def brought_by(extra: str) -> list[str]:
    """Return the requirements of an extra, with those of the extras of ours that it includes."""
    included = [Requirement(each) for each in EXTRAS[extra]]
    ours = [each for each in included if each.name == PROJECT["project"]["name"]]
    of_others = [str(each) for each in included if each not in ours]
    return [*of_others, *(each for one in ours for name in one.extras for each in brought_by(name))]


RUN: list[str] = [*PROJECT["project"]["dependencies"], *brought_by("postgres"), *brought_by("testing")]
IMAGE: list[str] = [
    *PROJECT["project"]["dependencies"],
    *(each for extra in ("postgres", "kafka", "metrics") for each in brought_by(extra)),
]
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
    [("build", BUILD), ("run", RUN), ("tests", [*BUILD, *RUN, *DEV]), ("image", IMAGE), ("lock", GROUPS["lock"])],
)
def test_each_package_has_one_version_that_the_project_takes_and_digests(
    name: str, requirements: Iterable[str]
) -> None:
    versions = locked(name)
    wanted = [Requirement(requirement) for requirement in requirements]
    assert [str(each) for each in wanted if canonicalize_name(each.name) not in versions] == []
    assert [str(each) for each in wanted if versions[canonicalize_name(each.name)] not in each.specifier] == []


def test_all_of_them_are_of_one_resolution() -> None:
    assert {path.stem for path in LOCKS} == {"build", "image", "lock", "run", "tests"}
    assert locked("build").items() | locked("image").items() | locked("run").items() <= locked("tests").items()


def test_a_consumer_gets_the_kafka_client_that_leaks_nothing() -> None:
    for extra in ("consumer", "kafka", "testing"):
        [client] = [Requirement(each) for each in brought_by(extra) if each.startswith("confluent-kafka")]
        assert "2.13.1" not in client.specifier
        assert "2.13.2" in client.specifier
    assert not [each for each in PROJECT["project"]["dependencies"] if each.startswith("confluent-kafka")]


def test_they_name_no_index() -> None:
    assert [path.name for path in LOCKS if "://" in path.read_text() or "index" in path.read_text()] == []


def test_the_extra_of_sqlalchemy_brings_what_its_asyncio_needs() -> None:
    [required] = [each for each in map(Requirement, EXTRAS["sqlalchemy"]) if each.name == "sqlalchemy"]
    assert "asyncio" in required.extras
