"""Kafka's, Connect's and Debezium's jars: fetched once per user and pinned version, then only looked up."""

import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from cdc_outbox.errors import StackError

_OLDEST_JAVA = 17
"""What Kafka 4's broker and Debezium 3 are compiled for."""


@dataclass(frozen=True, slots=True)
class Jars:
    """The folders that a broker and a worker are started from."""

    libs: Path
    plugins: Path


def find_java() -> str:
    """Return the path of a Java that is new enough.

    Raises:
        StackError: There is none.
    """
    java = shutil.which("java")
    advice = "Install a Java runtime, 17 or newer: on Debian or Ubuntu `apt-get install openjdk-17-jre-headless`."
    if java is None:
        raise StackError("Java is not installed (no `java` on the PATH)", hint=advice)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        raise StackError(f"the Java on the PATH is {version[1] if version else 'of no known version'}", hint=advice)
    return java


def fetch_jars(cache: Path) -> Jars:
    """Return the jars, fetched by Maven if this user does not have this version of them yet.

    Args:
        cache: The user's cache folder for this package. Several processes may fetch at once; one does.

    Raises:
        StackError: They have to be fetched, and Maven is missing or fails.
    """
    pom = files(__package__).joinpath("settings", "pom.xml").read_bytes()
    home = cache / "jars" / hashlib.sha256(pom).hexdigest()[:16]
    jars = Jars(libs=home / "libs", plugins=home / "plugins")
    if home.exists():
        return jars
    with _lock(cache / "jars.lock"):
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetching-") as folder:
                _fetch(pom, Path(folder))
                # All or nothing: a folder with the final name is complete.
                (Path(folder) / "fetched").rename(home)
    return jars


def _fetch(pom: bytes, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise StackError(
            "Maven is not installed (no `mvn` on the PATH), and the jars are not in the cache yet",
            hint="Install Maven: on Debian or Ubuntu `apt-get install maven`.",
        )
    # A copy: Maven writes beside the file, and the package may lie where nobody may write.
    (folder / "pom.xml").write_bytes(pom)
    fetched = folder / "fetched"
    command = [maven, "-q", "-B", "-f", str(folder / "pom.xml"), "process-resources", f"-Dfolder={fetched}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode or not any(fetched.glob("libs/kafka-server-*.jar")) or not any(fetched.glob("plugins/*/*.jar")):
        said = (done.stdout + done.stderr).strip().splitlines()
        raise StackError(f"Maven could not fetch the jars: {said[0] if said else 'it said nothing'}")


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
