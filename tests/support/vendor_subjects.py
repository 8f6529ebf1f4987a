"""What the suites in tests/vendor check, and whether it is what their last passing run saw.

They hold facts about other people's software: options, connectors, routers, operators. While their subject is the same,
they find what they found before, after minutes of work. So ``infra/test`` leaves them out and fails if a subject has
changed since; ``infra/test --all`` runs suites whose subject has changed, and notes the digests of those that passed.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = "tests/vendor"

_JARS = (
    "cdc_outbox/debezium/event_router/jvm/pom.xml",
    "cdc_outbox/debezium/event_router/jvm/jars.py",
    "cdc_outbox/debezium/event_router/jvm/jars.sha256",
)
_REGEXES = ("cdc_outbox/debezium/java_regex.py", "cdc_outbox/debezium/regex_program.py")
_RENDERED = (
    *(
        "cdc_outbox/debezium/render/*",
        "cdc_outbox/spec/__init__.py",
        "cdc_outbox/spec/spec.schema.json",
        "cdc_outbox/databases/table.py",
        "cdc_outbox/databases/dialects/*",
        "cdc_outbox/databases/quoting.py",
    ),
    *("cdc_outbox/testing/configure.py", "cdc_outbox/testing/java/*", "tests/support/specs.py"),
)
SUBJECTS = {
    "test_configure.py": (*_JARS, *_RENDERED, "tests/support/profiles.py"),
    "test_leader_loss.py": (
        *_JARS,
        *(
            "cdc_outbox/contract/topics.py",
            "cdc_outbox/kafka/*",
            "cdc_outbox/relay/kafka_sink.py",
            "cdc_outbox/relay/relay_errors.py",
            "cdc_outbox/relay/units.py",
        ),
        *("cdc_outbox/testing/broker.py", "cdc_outbox/testing/process.py"),
        *("tests/support/broker_cluster.py", "infra/locks/tests.txt"),
    ),
    "test_option_catalogue.py": (
        *_JARS,
        "cdc_outbox/debezium/options/*.json",
        "cdc_outbox/debezium/options/__init__.py",
        "catalogue/*",
    ),
    "test_proofs.py": (
        *_JARS,
        *(
            "cdc_outbox/debezium/lint/*",
            "cdc_outbox/debezium/config.py",
            "cdc_outbox/debezium/config_texts.py",
            *_REGEXES,
            "cdc_outbox/debezium/render/*",
            "cdc_outbox/debezium/options/*",
        ),
        *("cdc_outbox/debezium/options/__init__.py", "cdc_outbox/kafka/clients.py", "cdc_outbox/testing/settings/*"),
        *("tests/proofs/*", "tests/support/configs.py", "tests/support/rig.py", "tests/unit/golden/orders.json"),
    ),
    "test_public_configs.py": (
        *_JARS,
        *("cdc_outbox/testing/configure.py", "cdc_outbox/testing/java/*"),
        *("tests/support/configs.py", "tests/data/public/*"),
    ),
    "test_router_releases.py": (
        *(*_JARS, *_REGEXES),
        "cdc_outbox/debezium/event_router/*",
        "cdc_outbox/debezium/event_router/jvm/*",
        "fuzz/router*.py",
    ),
    "test_six_databases.py": (
        *(*_JARS, *_REGEXES, *_RENDERED),
        *(
            "cdc_outbox/debezium/event_router/*",
            "cdc_outbox/debezium/event_router/jvm/*",
            "cdc_outbox/formats/attributes.py",
            "cdc_outbox/contract/wire.py",
            "cdc_outbox/databases/database.py",
        ),
    ),
    "test_strimzi_api.py": ("cdc_outbox/debezium/render/targets/*", "tests/support/strimzi.py"),
}
"""For each suite, the files that it checks or is made of; the suite's own file belongs to them."""

_SELECTIONS = ("keyword", "markexpr", "lf", "failedfirst", "stepwise", "collectonly")
"""Options of pytest that ask for some of the tests that the arguments name."""


def selects_tests(config: pytest.Config) -> bool:
    """Return whether options ask for some of the tests that the arguments name."""
    return any(getattr(config.option, name, None) for name in _SELECTIONS)


def digest(suite: str, root: Path = ROOT) -> str:
    """Return the digest of a suite's subject as it is in the working tree."""
    found = hashlib.sha256()
    for file in sorted({path for pattern in (*SUBJECTS[suite], f"{FOLDER}/{suite}") for path in root.glob(pattern)}):
        if file.is_file():
            found.update(f"{file.relative_to(root)}\0".encode())
            found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:16]


def noted_digests(root: Path) -> dict[str, str]:
    """Return the subjects' digests when their suites last passed."""
    note = root / FOLDER / "digests.json"
    found: dict[str, str] = json.loads(note.read_text()) if note.exists() else {}
    return found


def note_digests(digests: dict[str, str], root: Path) -> None:
    """Note that suites have passed on these digests."""
    new = noted_digests(root) | digests
    (root / FOLDER / "digests.json").write_text(json.dumps(dict(sorted(new.items())), indent=2) + "\n")


def named_suites(paths: Iterable[Path], root: Path) -> list[str]:
    """Return the suites that arguments name, be it by the path of a folder above them."""
    above, files = set(paths), {suite: root / FOLDER / suite for suite in SUBJECTS}
    return [suite for suite, file in files.items() if file.exists() and above & {file, *file.parents}]


class VendorSuites:
    """A plugin of pytest that runs suites that are named, or with ``--all`` have changed, and notes what passes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._root = config.rootpath
        # Before the first test: an edit during the run is not what the suites saw.
        self._digests = {suite: digest(suite, self._root) for suite in SUBJECTS}
        self._passed: set[str] = set()
        self._not_passed: set[str] = set()
        noted = noted_digests(self._root)
        self._changed = [suite for suite in SUBJECTS if noted.get(suite) != self._digests[suite]]
        self.left_out = self._find_left_out()
        self.stale = [] if selects_tests(config) else [suite for suite in self.left_out if suite in self._changed]
        """Suites that are left out of a whole run although their subject has changed."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return True if collection_path in {self._root / FOLDER / suite for suite in self.left_out} else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder, _, suite = report.nodeid.partition("::")[0].rpartition("/")
        if folder == FOLDER:
            if not report.passed:
                self._not_passed.add(suite)
            elif report.when == "call":
                self._passed.add(suite)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        # Workers of pytest-xdist see a part of the tests each.
        if hasattr(self._config, "workerinput") or exitstatus != pytest.ExitCode.OK:
            return
        if self.stale:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif self._config.option.all and (passed := self._find_passed()):
            note_digests({suite: self._digests[suite] for suite in passed}, self._root)

    def _find_left_out(self) -> list[str]:
        paths = [self._path(argument) for argument in self._config.args]
        collected = named_suites(paths, self._root)
        # The path of a suite, or of their folder, asks for it.
        folder = self._root / FOLDER
        asked = [suite for suite in collected if folder in paths or folder / suite in paths]
        if self._config.option.all:
            asked += self._changed
        return [suite for suite in collected if suite not in asked]

    def _find_passed(self) -> list[str]:
        """Return the suites all of whose tests ran and passed, on a subject that nobody edited meanwhile."""
        if selects_tests(self._config) or self._config.option.deselect:
            return []
        whole = named_suites([self._path(item) for item in self._config.args if "::" not in item], self._root)
        return [
            suite
            for suite in whole
            if suite in self._passed - self._not_passed and digest(suite, self._root) == self._digests[suite]
        ]

    def _path(self, argument: str) -> Path:
        return (self._config.invocation_params.dir / argument.partition("::")[0]).resolve()
