"""Clean environments: the package as pip installs it, with what it requires and with chosen extras, and nothing else.

The wheel is built and installed without an index, so what it requires has to be there. The requirements are linked from
the environment of the tests. An environment with extras is the base environment and a folder of further links.
"""

import json
import re
import subprocess
import sys
import venv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.metadata import parse_email
from packaging.requirements import Requirement

from tests.support.patience import patience

ROOT = Path(__file__).parents[2]
PROBE = Path(__file__).with_name("extras_probe.py")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an invocation said in one environment."""

    code: int
    said: str

    @property
    def missing(self) -> str:
        """The package that it refused for, empty for none."""
        found = re.search(r"needs the package ([\w-]+)|the package ([\w-]+) is not installed", self.said)
        return "" if found is None else found[1] or found[2]


class CleanEnvironments:
    """One virtual environment with the base install, and for each extra a folder with what it brings besides.

    Args:
        folder: An empty one.
        files: What lies in the working directory of the commands, by name.
    """

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self._folder = folder
        wheel = _build(folder)
        self.requirements, self.extras = _metadata(wheel)
        self._python = folder / "venv" / "bin" / "python"
        venv.create(folder / "venv", symlinks=True)
        [self._packages] = (folder / "venv").glob("lib/*/site-packages")
        _link(self.brought_by(()), self._packages)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(self._python)]
        subprocess.run([*pip, "install", "--no-index", "--no-compile", str(wheel)], check=True)
        self._work = folder / "work"
        self._work.mkdir()
        for name, text in files.items():
            (self._work / name).write_text(text)

    def brought_by(self, extras: Iterable[str]) -> dict[str, Distribution]:
        """Return the packages that an installation with these extras has besides ours, by their names."""
        found: dict[str, Distribution] = {}
        for extra in ["", *extras]:
            for each in required_by(self.requirements, extra):
                _add(each, found)
        return found

    def run(self, extras: Sequence[str], arguments: Iterable[Sequence[str]], url: str = "") -> list[Answer]:
        """Run the command once for each list of arguments, where these extras are installed.

        Args:
            url: Of a Connect worker, which stands in the arguments as ``WORKER``.
        """
        beside = self._folder / "-".join(["with", *extras])
        if not beside.exists():
            beside.mkdir()
            base = self.brought_by(())
            _link({name: each for name, each in self.brought_by(extras).items() if name not in base}, beside)
        given = json.dumps([[one.replace("WORKER", url) for one in each] for each in arguments])
        return [Answer(code, said) for code, said in json.loads(self._run("-P", str(PROBE), text=given, beside=beside))]

    def execute(self, code: str) -> str:
        """Execute a program where no extra is installed, and return what it prints."""
        return self._run("-c", code)

    def _run(self, *arguments: str, text: str = "", beside: Path | None = None) -> str:
        environment = {"PATH": str(self._work), "HOME": str(self._work), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            [self._python, *arguments],
            input=text,
            env=environment | ({} if beside is None else {"PYTHONPATH": str(beside)}),
            cwd=self._work,
            capture_output=True,
            text=True,
            timeout=patience(300),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def _build(folder: Path) -> Path:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def _metadata(wheel: Path) -> tuple[list[Requirement], list[str]]:
    """Return what the wheel requires, and its extras."""
    with ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        raw, _ = parse_email(archive.read(name))
    return [Requirement(each) for each in raw["requires_dist"]], sorted(raw["provides_extra"])


def required_by(requirements: Iterable[Requirement], extra: str) -> list[Requirement]:
    """Return what an extra requires besides the base, or with ``""`` what the base requires."""
    return [
        each
        for each in requirements
        if (each.marker is None if not extra else each.marker is not None and each.marker.evaluate({"extra": extra}))
    ]


def _add(requirement: Requirement, found: dict[str, Distribution]) -> None:
    """Add a package that is installed here, and what it requires in turn."""
    package = distribution(requirement.name)
    if package.name in found and not requirement.extras:
        return
    found[package.name] = package
    for text in package.requires or ():
        each = Requirement(text)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ["", *requirement.extras]):
            _add(each, found)


def _link(packages: dict[str, Distribution], folder: Path) -> None:
    """Link what packages put beside each other into another folder of packages."""
    for package in packages.values():
        for name in sorted({file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}):
            if not (folder / name).exists():
                (folder / name).symlink_to(str(package.locate_file(name)))
