"""Which versions of Debezium's connectors the Maven repository holds, and their plugins, fetched once per user."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from cdc_outbox.errors import StackError

ARTIFACTS = {
    "postgresql": "postgres",
    "mysql": "mysql",
    "mariadb": "mariadb",
    "sqlserver": "sqlserver",
    "oracle": "oracle",
    "mongodb": "mongodb",
}
"""The names of Debezium's connectors in the Maven repository."""

_OLDER = "3.4.0.Final"
"""The catalogue begins after this release, which the repository has for every connector."""
_UNPACK = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"
_REPORT = "org.codehaus.mojo:versions-maven-plugin:2.18.0:dependency-updates-report"
_DEPENDENCY = """<dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-{}</artifactId>\
<version>{}</version><type>tar.gz</type><classifier>plugin</classifier></dependency>"""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>cdc-outbox</groupId><artifactId>catalogue</artifactId><version>1</version><packaging>pom</packaging>
<dependencyManagement><dependencies>{}</dependencies></dependencyManagement></project>"""


def find_listed() -> dict[str, list[str]]:
    """Return the releases since 3.5 that the repository lists of each connector, oldest first; some are incomplete."""
    with tempfile.TemporaryDirectory() as folder:
        pom = Path(folder) / "pom.xml"
        pom.write_text(_POM.format("".join(_DEPENDENCY.format(name, _OLDER) for name in ARTIFACTS.values())))
        _maven(["-U", "-f", str(pom), _REPORT, "-DdependencyUpdatesReportFormats=xml"], folder)
        report = ET.parse(Path(folder) / "target" / "dependency-updates-report.xml")  # noqa: S314 - our own
    listed: dict[str, list[str]] = {}
    for dependency in report.iterfind(".//{*}dependencyManagement"):
        name = str(dependency.findtext("{*}artifactId")).removeprefix("debezium-connector-")
        tags = ("incremental", "minor", "major")
        newer = [str(found.text) for tag in tags for found in dependency.iterfind(f".//{{*}}{tag}")]
        connector = next(key for key, artifact in ARTIFACTS.items() if artifact == name)
        listed[connector] = [version.removesuffix(".Final") for version in newer if _belongs(version)]
    return listed


def fetch(cache: Path, connector: str, version: str) -> Path | None:
    """Return the folder of a plugin, ``None`` if the repository lists it but lacks a part of it.

    Args:
        cache: The user's cache folder for this package.

    Raises:
        StackError: Maven is missing, or does not reach its repository.
    """
    folder = cache / "plugins" / f"{connector}-{version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        artifact = f"io.debezium:debezium-connector-{ARTIFACTS[connector]}:{version}.Final:tar.gz:plugin"
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as fetching:
            try:
                _maven([_UNPACK, f"-Dartifact={artifact}", f"-DoutputDirectory={fetching}"], fetching)
            except StackError as error:
                if _is_incomplete(str(error)):
                    return None
                raise
            [unpacked] = (path for path in Path(fetching).iterdir() if any(path.glob("*.jar")))
            unpacked.rename(folder)  # complete under this name
    return folder


def _belongs(version: str) -> bool:
    return version.endswith(".Final") and not version.startswith("3.4.")


def _is_incomplete(said: str) -> bool:
    # Maven has one exit code for all: what is not there is told from what cannot be reached by its words.
    return "Could not find artifact" in said or "was not found in" in said


def _maven(arguments: Sequence[str], folder: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise StackError("Maven is not installed (no `mvn` on the PATH)")
    command = [maven, "-q", "-B", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)  # noqa: S603
    if done.returncode:
        raise StackError(f"Maven failed: {(done.stdout + done.stderr).strip()}")
