"""In which order tests run, and which of them run on one worker of pytest-xdist."""

import pytest
from xdist.scheduler import LoadFileScheduling

FOLDERS = ("integration/exclusive", "vendor", "integration", "acceptance", "contract", "attacks", "unit")
"""In the order in which they run: what takes long comes first, so that no worker waits for the other at the end."""
EXCLUSIVE = ("tests/integration/exclusive/", "tests/vendor/test_proofs.py")
"""Tests that kill, pause or reconfigure servers, or whose result depends on every transaction of a server: they run on
one worker, against a stack of their own."""


def order(item: pytest.Item) -> int:
    """Return the place of a test's folder among :data:`FOLDERS`; other folders come last."""
    places = (place for place, folder in enumerate(FOLDERS) if item.nodeid.startswith(f"tests/{folder}/"))
    return next(places, len(FOLDERS))


class Scheduling(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """One file after the other, and all that needs the exclusive stack as if it were one file.

    In every mode of ``--dist``: fixtures of a module make databases of fixed names on the shared servers, so that a
    module's tests must run on one worker.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "exclusive" if nodeid.startswith(EXCLUSIVE) else super()._split_scope(nodeid)


def use_xdist_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the runs of pytest that a test starts, and their workers, load no plugin but xdist: most would take longer
    to import than the run takes."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
