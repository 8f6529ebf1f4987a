"""Tests that repeat on real servers, for many seconds, what other tests check in less time.

``infra/test`` leaves them out, and ``infra/test --all`` runs them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from tests.support.vendor_subjects import selects_tests

CELLS: Mapping[str, Sequence[str]] = {
    "tests/acceptance/test_readme.py::test_the_demo_as_the_readme_says": ["-Connect worker"],
    "tests/acceptance/test_remedies.py::test_an_unfinished_republish_is_owed_until_it_is_paid": [
        *("had a connector-interrupted", "new connector-killed"),
    ],
    "tests/acceptance/test_remedies.py::test_what_is_told_of_a_lost_slot_leads_on": [
        "halt_and_drop_slot-DB512-republish",
        "halt_and_advance_slot-DB513-skip",
        "halt_and_forget-DB511-republish",
    ],
    "tests/integration/exclusive/test_killed_worker.py"
    "::test_many_writers_and_a_killed_worker_leave_effects_once_and_in_order": ["keep"],
    "tests/integration/exclusive/test_paused_broker.py"
    "::test_a_consumer_whose_brokers_are_gone_stops_before_it_is_killed": ["killed"],
    "tests/integration/exclusive/test_prune_damage.py::test_what_a_publication_left_out_stays": ["DB402"],
    "tests/integration/test_alembic_dialects.py::test_alembic_makes_what_an_upgrade_makes": ["postgresql"],
    "tests/integration/test_consumer_faults.py::test_effects_come_once_and_in_order": [
        *("after-poll-nap", "parking-pause"),
    ],
    "tests/integration/test_django_app.py::test_admin_model_checks_and_the_documented_view_hold_in_djangos_own_tests": [
        "sqlite"
    ],
    "tests/integration/test_modes.py::test_a_running_connector_does_not_change_from_rows_to_messages": ["delete"],
    "tests/integration/test_recovery_histories.py::test_each_event_has_its_effect_once_or_is_named": ["0", "11"],
    "tests/integration/test_republish.py::test_a_republish_that_was_killed_is_not_taken_for_a_finished_one": ["False"],
    "tests/integration/test_restored_database.py::test_each_effect_is_there_once_after_a_restore": [
        *("a partition-5", "three partitions-0"),
    ],
    "tests/integration/test_runbook_failover.py::test_lost_commits_continue_with_the_page_about_a_restore": ["2"],
    "tests/integration/test_runbook_producer.py::test_each_committed_event_is_published_or_named": [
        "snapshot-DB514-0-False",
    ],
    "tests/integration/test_runbooks.py::test_what_a_lost_slot_held_is_published": ["create_slot_again-DB513"],
    "tests/integration/test_runbooks.py::test_what_a_lost_topic_held_is_published": ["the events"],
    "tests/integration/test_wal_relay.py"
    "::test_a_large_transaction_comes_in_bounded_units_and_is_confirmed_as_a_whole": ["15"],
    "tests/integration/test_wal_relay.py::test_a_publication_that_leaves_rows_out_is_named": ["15"],
    "tests/integration/test_wal_relay.py::test_a_second_relay_waits_and_takes_over": ["15"],
    "tests/integration/test_wal_relay.py::test_a_publication_without_the_outbox_is_named": [
        "alter publication {} drop table outbox-15",
        "alter publication {} set (publish = '')-15",
    ],
}
"""The parameters of a test that are left out; others of the same test run."""

TESTS: Mapping[str, str] = {
    "tests/integration/test_runbook_failover.py"
    "::test_a_clean_failover_without_the_slot_continues_with_the_page_about_the_slot": (
        "tests/integration/test_runbooks.py::test_what_a_lost_slot_held_is_published[drop_slot-DB512]"
    ),
    "tests/integration/test_stack_parts.py::test_a_program_starts_from_the_classes_that_its_last_run_archived": (
        "tests/integration/test_stack_parts.py::test_broker_and_worker_start_from_the_archives_that_exist"
    ),
}
"""Whole tests that are left out, each with the one that runs."""

LEFT_OUT = frozenset(TESTS) | {f"{test}[{cell}]" for test, cells in CELLS.items() for cell in cells}


class RepeatedTests:
    """A plugin of pytest that leaves them out of a run of whole folders."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.count = 0
        """How many tests were left out."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._config.option.all or selects_tests(self._config) or not self._are_folders(self._config.args):
            return
        left_out = [item for item in items if item.nodeid in LEFT_OUT]
        items[:] = [item for item in items if item.nodeid not in LEFT_OUT]
        self._config.hook.pytest_deselected(items=left_out)
        self.count = len(left_out)

    def pytest_sessionfinish(self) -> None:
        # Only the configuration of a worker of pytest-xdist has this.
        output = getattr(self._config, "workeroutput", {})
        output["repeated"] = self.count

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # Each worker collects everything, and the process that reports collects nothing.
        self.count = getattr(node, "workeroutput", {}).get("repeated", self.count)

    def _are_folders(self, arguments: Iterable[str]) -> bool:
        folder = self._config.invocation_params.dir
        return all((folder / argument.partition("::")[0]).is_dir() for argument in arguments)
