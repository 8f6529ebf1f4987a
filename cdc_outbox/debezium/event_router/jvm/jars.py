"""Java and the jars: Kafka, Connect and Debezium, fetched once per user and version, then only looked up.

The digests of what Maven fetches are compared with those in the file beside this one.
"""

import fcntl
import hashlib
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cdc_outbox.errors import StackError

_DIGESTS = Path(__file__).parent / "jars.sha256"
_ADVICE = "The Maven repository, or its mirror, serves other files than Maven Central did when this package was built."


@cache
def read_digests() -> Mapping[str, str]:
    """Return the SHA-256 of each jar of ``pom.xml``, by its place in the fetched folder, and of each known archive."""
    return {name: digest for digest, name in (line.split() for line in _DIGESTS.read_text().splitlines())}


def refuse_other_jars(fetched: Path) -> None:
    """Refuse a folder whose jars are not exactly those of ``pom.xml``.

    Raises:
        StackError: One is missing, is another file, or is not known.
    """
    jars = {str(path.relative_to(fetched)): path for path in fetched.rglob("*.jar")}
    wanted = {name for name in read_digests() if name.endswith(".jar")}
    for name in sorted(wanted ^ jars.keys()):
        raise StackError(f"Maven fetched other jars than expected: {name}", hint=_ADVICE)
    for name, path in sorted(jars.items()):
        _refuse_other(name, path)


def refuse_other_archive(path: Path) -> None:
    """Refuse an archive of a release that is known, if it is another file; of others nothing is known.

    Raises:
        StackError: It is another file.
    """
    if path.name in read_digests():
        _refuse_other(path.name, path)


def _refuse_other(name: str, path: Path) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != read_digests()[name]:
        raise StackError(f"Maven fetched another {name} than expected: its SHA-256 is {digest}", hint=_ADVICE)


POM = Path(__file__).parent / "pom.xml"
"""What the local stack is made of, pinned."""

NEWEST_PLUGINS: Mapping[str, str] = {
    "mariadb": "3.5.0.Final",
    "mysql": "3.6.1.Final",
    "sqlserver": "3.6.1.Final",
    "oracle": "3.6.1.Final",
    "mongodb": "3.6.1.Final",
}
"""Debezium's connectors beside the one for PostgreSQL, each in the newest release that Maven has."""

_LOGGING = Path(__file__).parent / "log4j2.properties"
_OLDEST_JAVA = 17
"""What Kafka 4's broker and Debezium 3 are compiled for."""
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Options of a JVM that lives for minutes: the second compiler takes half of the CPU time then, and never pays."""
_ANY_PLUGIN = "plugins/*/*.jar"
_COPYING = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


@dataclass(frozen=True, slots=True)
class Jvm:
    """A Java that is new enough, and what it runs.

    Args:
        java: The program.
        home: The folder with ``libs`` (Kafka and Connect) and ``plugins`` (Debezium for PostgreSQL).
        further: The folders of connectors that a worker loads beside those.
        options: What every JVM is started with beside its heap.
        archives: The folder of class data archives for this Java and these jars, which need not exist. A JVM that
            starts from one takes a good half of the time and CPU (``java`` manual, "class data sharing").
        is_recording: Whether JVMs write these archives when they end in good order, instead of starting from them.
    """

    java: str
    home: Path
    further: tuple[Path, ...] = ()
    options: tuple[str, ...] = ()
    archives: Path | None = None
    is_recording: bool = False

    @property
    def plugins(self) -> list[Path]:
        """The folders of connectors that a worker loads, one a connector."""
        return [*sorted((self.home / "plugins").iterdir()), *self.further]

    def command(self, main_class: str, *arguments: str, heap: str, archive: str = "") -> list[str]:
        """Return the command line of a program.

        Args:
            heap: As ``-Xmx`` takes it, for example ``512m``.
            archive: The name of the program's class data archive, if it has one.
        """
        return [
            self.java,
            f"-Xmx{heap}",
            # One thread collects: with a heap of this size the others only fight for the same cores.
            "-XX:+UseSerialGC",
            *self.options,
            *self._archive_options(archive),
            f"-Dlog4j2.configurationFile={_LOGGING}",
            "-cp",
            f"{self.home}/libs/*",
            main_class,
            *arguments,
        ]

    def _archive_options(self, name: str) -> list[str]:
        if not name or self.archives is None:
            return []
        archive = self.archives / f"{name}.jsa"
        if self.is_recording:
            return [f"-XX:ArchiveClassesAtExit={archive}"]
        return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def find_jvm(cache: Path, *, connectors: Sequence[str] = ()) -> Jvm:
    """Return Java and the jars, which Maven fetches if this user does not have this version of them yet.

    Args:
        cache: The user's cache folder for this package. Several processes may fetch at once; one does.
        connectors: Those that a worker can run beside the one for PostgreSQL, of :data:`NEWEST_PLUGINS`: another 25
            to 71 MB each.

    Raises:
        StackError: Java is missing or too old, or the jars have to be fetched and Maven is missing or fails.
    """
    java, version = _find_java()
    home = _fetch(cache, POM, "libs/kafka-server-*.jar", _ANY_PLUGIN)
    # Another build of Java would refuse the archives.
    archives = cache / "class-data" / f"{home.name}-{hashlib.sha256(version.encode()).hexdigest()[:16]}"
    further = tuple(fetch_plugin(cache, name, NEWEST_PLUGINS[name]) for name in connectors)
    return Jvm(java, home, further, archives=archives)


def fetch_plugin(cache: Path, connector: str, version: str) -> Path:
    """Return the folder with one release of one connector's jars, which Maven fetches if it is not there yet.

    Args:
        cache: As :func:`find_jvm` takes it.
        connector: As in the artifact's name: ``postgres``, ``mongodb`` …
        version: Debezium's, in full: ``3.6.1.Final``.

    Raises:
        StackError: Maven is missing, or has no such release.
    """
    name = f"debezium-connector-{connector}"
    home = cache / "plugins" / f"{name}-{version}"
    if home.exists():
        return home / name
    with locked(cache / "plugins.lock"):
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetching-") as folder:
                _copy_plugin(f"io.debezium:{name}:{version}:tar.gz:plugin", Path(folder))
                (Path(folder) / "fetched").rename(home)
    return home / name


def _copy_plugin(artifact: str, folder: Path) -> None:
    command = [_find_maven(), "-q", "-B", _COPYING, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    archives = list(folder.glob("*.tar.gz"))
    if done.returncode or not archives:
        raise StackError(f"Maven could not fetch {artifact}", hint="Check that this release of the connector exists.")
    refuse_other_archive(archives[0])
    with tarfile.open(archives[0]) as archive:
        # Python before 3.11.4 has no filters; the archive's digest was compared.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder / "fetched")  # noqa: S202


def _find_java() -> tuple[str, str]:
    """Return the program and what it says of its version."""
    java = shutil.which("java")
    advice = "Install a Java runtime, 17 or newer: on Debian or Ubuntu `apt-get install openjdk-17-jre-headless`."
    if java is None:
        raise StackError("Java is not installed (no `java` on the PATH)", hint=advice)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        found = f"version {version[1]}" if version else "of an unknown version"
        raise StackError(f"the Java on the PATH is {found}; {_OLDEST_JAVA} is required", hint=advice)
    return java, said


def _fetch(cache: Path, settings: Path, *expected: str) -> Path:
    """Return the folder with what a settings file names; ``expected`` has patterns of files that it must contain."""
    pom = settings.read_bytes()
    home = cache / "jars" / hashlib.sha256(pom).hexdigest()[:16]
    if home.exists():
        return home
    with locked(cache / "jars.lock"):
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetching-") as folder:
                _run_maven(pom, Path(folder), expected)
                # All or nothing: a folder with the final name is complete.
                (Path(folder) / "fetched").rename(home)
    return home


def _find_maven() -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise StackError(
            "Maven is not installed (no `mvn` on the PATH), and the jars are not in the cache yet",
            hint="Install Maven: on Debian or Ubuntu `apt-get install maven`.",
        )
    return maven


def _run_maven(pom: bytes, folder: Path, expected: tuple[str, ...]) -> None:
    # A copy: Maven writes beside the file, and the package's folder may be read-only.
    (folder / "pom.xml").write_bytes(pom)
    fetched = folder / "fetched"
    command = [_find_maven(), "-q", "-B", "-f", str(folder / "pom.xml"), "process-resources", f"-Dfolder={fetched}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode or not all(any(fetched.glob(pattern)) for pattern in expected):
        said = (done.stdout + done.stderr).strip().splitlines()
        raise StackError(
            f"Maven could not fetch the jars: {said[0] if said else 'it said nothing'}",
            hint="Check that Maven reaches its repositories.",
        )
    refuse_other_jars(fetched)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
