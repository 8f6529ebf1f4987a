"""Tests that repeat on real servers, for many seconds, what other tests check in less time.

``infra/test`` leaves them out, and ``infra/test --all`` runs them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from tests.support.vendor_subjects import selects_tests

_CELLS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "tests/acceptance/test_consume_command.py": {
        "test_a_consumer_that_is_killed_at_a_step_loses_nothing_and_repeats_nothing": ["in-handler:4-3-0"],
    },
    "tests/acceptance/test_each_command.py": {
        "test_a_command_runs_and_ends_with_its_exit_code": [
            "adopt",
            "completion",
            "contexts",
            "parked",
            "contract",
            "delete",
            "explain",
            "init",
            "new",
            "offsets",
            "partitions",
            "pause",
            "plan",
            "preflight",
            "prune",
            "purge-inbox",
            "recover",
            "render",
            "replay",
            "reset",
            "restart",
            "resume",
            "spec-schema",
            "status",
            "stop",
            "verify",
            "watch",
        ],
    },
    "tests/acceptance/test_early_signals.py": {
        "test_while_it_imports_its_modules_and_connects": ["consume service:asynchronous"],
    },
    "tests/acceptance/test_lines_deploy_faults.py": {
        "test_connect_does_not_recover": ["409", "reset", "starting"],
    },
    "tests/acceptance/test_readme.py": {
        "test_the_demo_as_the_readme_says": ["-Connect worker"],
    },
    "tests/acceptance/test_relay_command.py": {
        "test_a_signal_while_the_slot_is_created_takes_back_what_was_begun": ["SIGTERM-relay", "both---create-slot"],
    },
    "tests/acceptance/test_remedies.py": {
        "test_an_unfinished_republish_is_owed_until_it_is_paid": [
            "had a connector-interrupted",
            "new connector-killed",
        ],
        "test_what_is_told_of_a_lost_slot_leads_on": [
            "halt_and_drop_slot-DB512-republish",
            "halt_and_advance_slot-DB513-skip",
            "halt_and_forget-DB511-republish",
        ],
    },
    "tests/acceptance/test_stack_command.py": {
        "test_a_missing_program_is_one_sentence_and_what_to_install": [
            "programs1-Maven is not installed (no `mvn` on the PATH)-apt-get install maven"
        ],
        "test_ending_it_leaves_no_process_no_port_and_no_folder": ["1", "2"],
    },
    "tests/integration/exclusive/test_killed_worker.py": {
        "test_many_writers_and_a_killed_worker_leave_effects_once_and_in_order": ["keep", "delete"],
    },
    "tests/integration/exclusive/test_paused_broker.py": {
        "test_a_consumer_whose_brokers_are_gone_stops_before_it_is_killed": ["killed"],
    },
    "tests/integration/exclusive/test_prune_damage.py": {
        "test_what_a_publication_left_out_stays": ["DB402", "DB403"],
    },
    "tests/integration/exclusive/test_relay_faults.py": {
        "test_each_event_arrives_in_order_after_a_fault": [
            "received-kill",
            "in-transaction-kill",
            "written-down-kill",
            "after-claim-pause",
            "produced-pause",
            "draining-pause",
            "before-slot-cut",
            "reported-cut",
            "idle-broker-down",
        ],
    },
    "tests/integration/exclusive/test_runbook_mariadb.py": {
        "test_a_restored_server_is_published_again": ["longer than the offset"],
    },
    "tests/integration/test_adoption.py": {
        "test_a_relay_publishes_what_init_and_the_checks_call_ready": [
            "unnumbered-delete",
            "partitioned",
            "numbered-delete",
        ],
    },
    "tests/integration/test_alembic_dialects.py": {
        "test_alembic_makes_what_an_upgrade_makes": ["postgresql"],
    },
    "tests/integration/test_consumer_faults.py": {
        "test_effects_come_once_and_in_order": [
            "after-claim-kill",
            "in-handler-kill",
            "after-commit-kill",
            "on-revoke-kill",
            "after-parking-kill",
            "after-poll-nap",
            "before-commit-nap",
            "in-handler-pause",
            "parking-pause",
            "commit-done-database-reset",
        ],
    },
    "tests/integration/test_django_app.py": {
        "test_admin_model_checks_and_the_documented_view_hold_in_djangos_own_tests": ["sqlite", "mariadb"],
    },
    "tests/integration/test_fencing.py": {
        "test_a_zombie_in_the_middle_of_its_handler_neither_keeps_its_successor_waiting_nor_has_effects": [""],
    },
    "tests/integration/test_modes.py": {
        "test_a_running_connector_does_not_change_from_rows_to_messages": ["delete"],
    },
    "tests/integration/test_recovery.py": {
        "test_a_promoted_standby_is_found_if_it_lost_commits": ["0-found1"],
        "test_a_slot_that_is_lost_is_no_history_without_a_gap": ["drop_slot-does not exist"],
        "test_what_the_slot_holds_is_published_only_if_it_stands_before_a_heartbeat_that_was": [
            "slot behind the heartbeat"
        ],
    },
    "tests/integration/test_recovery_histories.py": {
        "test_each_event_has_its_effect_once_or_is_named": ["0", "11"],
    },
    "tests/integration/test_relay_to_kafka.py": {
        "test_ends_of_the_stream_leave_descriptors_threads_and_memory_as_they_were": ["1000"],
        "test_the_relays_messages_are_debeziums": ["cloudevents-binary", "cloudevents-structured", "json"],
    },
    "tests/integration/test_republish.py": {
        "test_a_republish_that_was_killed_is_not_taken_for_a_finished_one": ["False"],
    },
    "tests/integration/test_restored_database.py": {
        "test_each_effect_is_there_once_after_a_restore": ["a partition-5", "three partitions-0"],
    },
    "tests/integration/test_runbook_failover.py": {
        "test_lost_commits_continue_with_the_page_about_a_restore": ["2"],
    },
    "tests/integration/test_runbook_producer.py": {
        "test_each_committed_event_is_published_or_named": [
            "snapshot-DB514-0-False",
            "snapshot-DB514-1-False",
            "dump-DB512-0-True",
        ],
    },
    "tests/integration/test_runbooks.py": {
        "test_what_a_lost_slot_held_is_published": ["create_slot_again-DB513"],
        "test_what_a_lost_topic_held_is_published": ["the events"],
    },
    "tests/integration/test_wal_relay.py": {
        "test_a_large_transaction_comes_in_bounded_units_and_is_confirmed_as_a_whole": ["15"],
        "test_a_publication_that_leaves_rows_out_is_named": ["15"],
        "test_a_publication_without_the_outbox_is_named": [
            "alter publication {} drop table outbox-15",
            "alter publication {} set (publish = '')-15",
        ],
        "test_a_second_relay_waits_and_takes_over": ["15"],
        "test_a_stream_is_not_lost_while_the_server_decodes_what_is_no_row_of_it": ["5,000,000 rows", "20,000 tables"],
    },
    "tests/unit/test_completion.py": {
        "test_commands_and_names_of_contexts_are_completed": ["zsh"],
    },
    "tests/unit/test_consumer_model.py": {
        "test_effects_happen_once_and_in_order_whatever_happens_to_the_consumers": ["short"],
    },
}
"""By file and test: the parameters that are left out; others of the same test run."""

_TESTS: Mapping[str, Mapping[str, str]] = {
    "tests/acceptance/test_dependencies.py": {
        "test_the_page_says_what_was_found": (
            "tests/acceptance/test_dependencies.py::test_a_missing_package_is_one_sentence_and_an_extra_that_brings_it"
        ),
    },
    "tests/acceptance/test_lines_deploy_faults.py": {
        "test_the_config_topic_is_lost_and_the_worker_begins_anew": (
            "tests/acceptance/test_lines_deploy_faults.py::test_connect_does_not_recover[config-topic]"
        ),
    },
    "tests/acceptance/test_simulate_command.py": {
        "test_rows_are_taken_from_the_table_with_the_types_that_they_have_there": (
            "tests/acceptance/test_simulate_command.py::test_a_table_of_ones_own_is_read_by_its_own_types"
        ),
    },
    "tests/integration/exclusive/test_faults.py": {
        "test_a_second_worker_takes_over_from_one_that_is_killed_under_load": (
            "tests/integration/exclusive/test_faults.py::test_a_killed_connect_worker_loses_nothing_and_repeats_have_no_effect"
        ),
    },
    "tests/integration/exclusive/test_killed_worker_deploy.py": {
        "test_the_worker_is_killed_in_mid_deploy_and_comes_back_too_late": (
            "tests/integration/exclusive/test_killed_worker_deploy.py::test_the_worker_is_killed_in_mid_deploy_and_comes_back"
        ),
    },
    "tests/integration/exclusive/test_prune_paused.py": {
        "test_a_connector_that_is_started_anew_meanwhile_is_waited_for": (
            "tests/integration/exclusive/test_prune_paused.py::test_nothing_goes_that_the_slot_has_not_confirmed"
        ),
    },
    "tests/integration/test_bench.py": {
        "test_the_benchmark_of_two_commits_relays_measures_both": (
            "tests/integration/test_bench.py::test_the_relays_benchmark_reports_every_side"
        ),
        "test_the_commands_benchmark_reports_every_side": (
            "tests/integration/test_bench.py::test_the_relays_benchmark_reports_every_side"
        ),
        "test_the_consumers_benchmark_compares_inboxes_that_remember_few_and_many": (
            "tests/integration/test_bench.py::test_the_consumers_benchmark_counts_the_effects_of_every_side"
        ),
    },
    "tests/integration/test_relay_to_kafka.py": {
        "test_a_second_relay_takes_over_when_the_first_is_killed": (
            "tests/acceptance/test_relay_command.py::test_kill_9_and_a_second_instance_takes_over_and_nothing_is_lost"
        ),
        "test_kills_lose_and_invent_nothing": (
            "tests/integration/exclusive/test_relay_faults.py::test_each_event_arrives_in_order_after_a_fault[produced-kill]"
        ),
    },
    "tests/integration/test_runbook_failover.py": {
        "test_a_clean_failover_without_the_slot_continues_with_the_page_about_the_slot": (
            "tests/integration/test_runbooks.py::test_what_a_lost_slot_held_is_published[drop_slot-DB512]"
        ),
    },
    "tests/integration/test_stack_parts.py": {
        "test_a_program_starts_from_the_classes_that_its_last_run_archived": (
            "tests/integration/test_stack_parts.py::test_broker_and_worker_start_from_the_archives_that_exist"
        ),
    },
}
"""By file: whole tests that are left out, each with the one that runs."""

CELLS = {f"{file}::{test}": cells for file, tests in _CELLS.items() for test, cells in tests.items()}
TESTS = {f"{file}::{test}": runs for file, tests in _TESTS.items() for test, runs in tests.items()}
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
