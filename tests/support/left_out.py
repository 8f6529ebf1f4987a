"""The last lines of a run: which tests it left out, and which this machine cannot run."""

import re

import pytest

from tests.support.repeated_tests import RepeatedTests
from tests.support.vendor_subjects import FOLDER, VendorSuites


class LeftOut:
    """A plugin of pytest that leaves tests out; at the end it says how many, what must run, and what was skipped."""

    def __init__(self, config: pytest.Config) -> None:
        self._suites, self._tests = VendorSuites(config), RepeatedTests(config)
        self._skipped: list[str] = []
        for plugin in (self._suites, self._tests):
            config.pluginmanager.register(plugin)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test that this machine cannot run skips itself with these words; it is the only kind of skip.
        if report.skipped and isinstance(report.longrepr, tuple):
            _, _, reason = report.longrepr
            self._skipped += re.findall(r"SKIPPED \w+: .*", reason)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        suites, tests = self._suites.left_out, self._tests.count
        if hasattr(config, "workerinput"):  # a worker of pytest-xdist reports nothing
            return
        writer = config.get_terminal_writer()
        if self._suites.stale:
            writer.line(
                f"FAILED: {', '.join(self._suites.stale)} of {FOLDER} passed last on other files than these. Run "
                f"infra/test --all, and commit {FOLDER}/digests.json alone.",
                red=True,
            )
        if suites or tests:
            counts = f"{len(suites)} suites of {FOLDER}, {tests} slower variants of other tests"
            writer.line(
                f"left out: {counts}; infra/test --all runs these variants, and suites whose subject has changed"
            )
        for skipped in self._skipped:
            writer.line(skipped, yellow=True)
