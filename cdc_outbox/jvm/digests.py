"""The digests of what Maven fetches.

Maven's own checksums come from the server that the files come from, and mirrors may have none.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cdc_outbox.errors import StackError

_DIGESTS = Path(__file__).parent / "jars.sha256"
_ADVICE = "The repository, or a mirror of it, serves other files than Maven Central did when this package was made."


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
        raise StackError(f"the jars that Maven fetched are others than expected: {name}", hint=_ADVICE)
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
