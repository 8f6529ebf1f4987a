"""The last line of a run: which tests it left out."""

import pytest

from tests.support.repeated_tests import RepeatedTests
from tests.support.vendor_subjects import FOLDER, VendorSuites


class LeftOut:
    """A plugin of pytest that leaves tests out, and says at the end how many, or which suites must run."""

    def __init__(self, config: pytest.Config) -> None:
        self._suites, self._tests = VendorSuites(config), RepeatedTests(config)
        for plugin in (self._suites, self._tests):
            config.pluginmanager.register(plugin)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        suites, tests = self._suites.left_out, self._tests.count
        if not (suites or tests) or hasattr(config, "workerinput"):  # a worker of pytest-xdist reports nothing
            return
        counts = f"{len(suites)} suites of {FOLDER}, {tests} slower variants of other tests"
        writer = config.get_terminal_writer()
        if self._suites.stale:
            writer.line(
                f"FAILED: {', '.join(self._suites.stale)} of {FOLDER} passed last on other files than these. Run "
                f"infra/test --all, and commit {FOLDER}/digests.json alone.",
                red=True,
            )
        writer.line(f"left out: {counts}; infra/test --all runs these variants, and suites whose subject has changed")
