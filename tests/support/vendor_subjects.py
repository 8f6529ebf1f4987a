"""What the suites in tests/vendor check, and whether it is what their last passing run saw.

They hold facts about other people's software: options, connectors, routers, operators. As long as their subject is the
same, they find what they found before, after minutes of work; so ``infra/test`` leaves them out, and
``infra/test --all`` runs them and notes the digests.
"""

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTE = ROOT / "tests" / "vendor" / "digests.json"
"""The subjects' digests at the last passing ``infra/test --all``."""

_JARS = ("cdc_outbox/jvm/pom.xml", "cdc_outbox/jvm/jars.py")
SUBJECTS = {
    "test_option_catalogue.py": (
        *_JARS,
        "cdc_outbox/connect/options/*",
        "cdc_outbox/connect/catalogue.py",
        "catalogue/*",
    ),
    "test_proofs.py": (
        *_JARS,
        *("cdc_outbox/connect/lint/*", "cdc_outbox/connect/render/*", "cdc_outbox/connect/options/*"),
        *("tests/proofs/*", "tests/support/configs.py", "tests/unit/golden/orders.json"),
    ),
    "test_router_releases.py": (*_JARS, "cdc_outbox/router/*", "cdc_outbox/jvm/*", "fuzz/router*.py"),
    "test_strimzi_api.py": ("cdc_outbox/connect/targets/*", "tests/support/strimzi.py"),
}
"""For each suite, the files that it checks or is made of; the suite's own file belongs to them."""


def digest(suite: str) -> str:
    """Return the digest of a suite's subject as it is in the working tree."""
    found = hashlib.sha256()
    for file in sorted(
        {path for pattern in (*SUBJECTS[suite], f"tests/vendor/{suite}") for path in ROOT.glob(pattern)}
    ):
        if file.is_file():
            found.update(f"{file.relative_to(ROOT)}\0".encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:16]


def unchanged_suites() -> list[str]:
    """Return the suites whose subject is the one that passed."""
    noted: dict[str, str] = json.loads(NOTE.read_text()) if NOTE.exists() else {}
    return [suite for suite in SUBJECTS if noted.get(suite) == digest(suite)]


def note_digests() -> None:
    """Note that every suite has passed on the working tree."""
    NOTE.write_text(json.dumps({suite: digest(suite) for suite in SUBJECTS}, indent=2) + "\n")
