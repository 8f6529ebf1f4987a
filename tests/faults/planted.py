"""Bugs of relay, recovery and consumer, planted one by one into a copy of the project: a test of each has to fail.

Each test is run on a copy without the bug first, where it must pass. `infra/faults planted` plants all of them, some
twenty minutes; `--only NAME` one. It exits 1 if one is not caught.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Bug:
    """A wrong line in place of a right one.

    Args:
        file: Of the package.
        right: Stands in the file exactly once.
        test: The path, and the name, of a test that fails with the wrong one.
    """

    name: str
    file: str
    right: str
    wrong: str
    test: str


_RELAY = "tests/integration/test_wal_relay.py"
BUGS = (
    Bug(
        "event-committed-without-its-row",
        "databases/drivers/sqlalchemy_sessions.py",
        "if len(choices) > 1:",
        "if False:",
        "tests/contract/test_several_engines.py"
        "::test_an_event_that_another_commit_would_commit_is_refused[sqlite-with_binds-add_place_commit]",
    ),
    Bug(
        "second-connection-not-watched",
        "databases/drivers/sqlalchemy_sessions.py",
        "if shared is not connection and shared in _held(session):",
        "if False:",
        "tests/contract/test_several_engines.py"
        "::test_an_event_that_another_commit_would_commit_is_refused[sqlite-by_mapper-add_place_commit]",
    ),
    Bug(
        "listener-after-the-commit-raises",
        "databases/drivers/sqlalchemy_sessions.py",
        "            return error\n",
        "            raise\n",
        "tests/unit/test_listeners.py::test_what_raises_after_the_commit_is_logged_with_its_event",
    ),
    Bug(
        "listener-before-the-commit-no-events-failure",
        "consumer/failures.py",
        "if isinstance(error, ListenerError) and error.__cause__ is not None:",
        "if False:",
        "tests/unit/test_listeners.py::test_what_raises_before_the_commit_is_the_failure_of_the_event",
    ),
    Bug(
        "text-for-an-option-kept",
        "contract/outbox_options.py",
        "    return kind(given)\n",
        "    return given  # type: ignore[return-value]\n",
        "tests/unit/test_choices.py::test_the_text_of_a_member_is_the_member",
    ),
    Bug(
        "member-without-partitions-called-stuck",
        "consumer/stats.py",
        "elif owned is None:",
        "elif not owned:",
        "tests/unit/test_membership_check.py::test_a_member_without_partitions_is_well_and_says_why",
    ),
    Bug(
        "isolated-event-in-a-batch",
        "consumer/backlog.py",
        "if items and self._isolated and ",
        "if items and not self._isolated and ",
        "tests/unit/test_backlog.py::test_an_event_of_an_isolated_type_is_a_batch_of_its_own",
    ),
    Bug(
        "changed-role-ends-the-consumer",
        "consumer/session.py",
        "roles.is_on = True",
        "roles.is_on = False",
        "tests/integration/test_changed_roles.py::test_the_same_holds_for_an_asynchronous_consumer",
    ),
    Bug(
        "straight-past-a-hole",
        "consumer/ordering.py",
        "if last is not None and last not in predecessors:",
        "if False:",
        "tests/unit/test_ordering.py::test_a_span_is_from_behind_the_first_event_of_each_aggregate_to_its_last",
    ),
    Bug(
        "straight-past-an-id-twice",
        "consumer/ordering.py",
        "return (expected, lasts) if len(ids) == len(events) else None",
        "return expected, lasts",
        "tests/unit/test_ordering.py::test_a_span_is_from_behind_the_first_event_of_each_aggregate_to_its_last",
    ),
    Bug(
        "heartbeat-time-without-zone",
        "databases/heartbeats.py",
        "if at.tzinfo is None:",
        "if False:",
        "tests/unit/test_heartbeats.py::test_what_is_no_heartbeat_is_passed_over",
    ),
    Bug(
        "stray-messages-fill-the-park",
        "consumer/parking.py",
        "if row is None and failure.is_stray and await",
        "if row is None and False and await",
        "tests/unit/test_delivery.py::test_one_message_of_another_producer_is_parked_for_all_of_its_partition",
    ),
    Bug(
        "new-leader-not-noticed",
        "consumer/start_offsets.py",
        "is_led_anew = leader is not None and leader != partition.leader_epoch",
        "is_led_anew = False",
        "tests/unit/test_start_offsets.py::test_behind_another_leader_an_offset_is_checked_before_it_is_read_from",
    ),
    Bug(
        "null-headers-in-a-cloud-event",
        "formats/cloudevents.py",
        'return {**dict.fromkeys(declared, ""), **headers} if',
        "return headers if",
        "tests/unit/test_cloudevents.py"
        "::test_a_header_that_an_event_lacks_is_no_null_in_binary_mode_and_no_header_of_the_event",
    ),
    Bug(
        "cloud-event-in-two-modes",
        "contract/wire.py",
        "if self.format is EventFormat.CLOUDEVENTS_STRUCTURED:",
        "if False:",
        "tests/unit/test_cloudevents.py::test_what_a_format_cannot_is_refused",
    ),
    Bug(
        "trace-context-decides",
        "contract/wire.py",
        "own = {*self.extra_headers} - {*BUILT_IN_HEADERS.values()}  #",
        "own = {*self.extra_headers}  #",
        "tests/unit/test_wire.py::test_trace_context_never_decides_about_an_event",
    ),
    Bug(
        "busy-socket-taken-for-ended",
        "databases/drivers/psycopg.py",
        "            return TransactionState.UNKNOWN\n",
        "            return TransactionState.ENDED\n",
        "tests/integration/test_server_deaths.py"
        "::test_a_socket_whose_end_the_driver_sees_before_libpq_does_is_an_outage[psycopg]",
    ),
    Bug(
        "busy-connection-taken-for-lost",
        "databases/drivers/transactions.py",
        "driver.state(connection) if await asking.answers(connection) else TransactionState.LOST",
        "TransactionState.LOST",
        "tests/integration/test_server_deaths.py"
        "::test_a_handler_that_leaves_its_connection_busy_is_parked_and_the_others_go_on[False-psycopg-copy]",
    ),
    Bug(
        "losses-not-counted",
        "consumer/retries.py",
        "self._losses[item.event_id] = times + 1 if is_alone else max(times, 1)",
        "self._losses[item.event_id] = times",
        "tests/unit/test_retries.py"
        "::test_an_event_under_which_the_connection_breaks_three_times_is_dead_as_one_that_crashes",
    ),
    Bug(
        "losses-of-a-dead-server-counted",
        "consumer/retries.py",
        "            self._losses.clear()\n",
        "            pass\n",
        "tests/unit/test_retries.py"
        "::test_a_connection_that_broke_before_the_database_was_unreachable_is_no_events_failure",
    ),
    Bug(
        "publisher-ignored",
        "relay/ownership.py",
        "if publisher.kind is not PublisherKind.WAL_RELAY:",
        "if False:",
        "tests/integration/test_publishers.py"
        "::test_a_relay_that_stands_by_never_takes_the_slot_of_a_connector_that_restarts",
    ),
    Bug(
        "slot-recreated-silently",
        "relay/ownership.py",
        "if limit is not None and found > limit:",
        "if False:",
        "tests/integration/test_wal_relay.py"
        "::test_a_slot_that_was_created_again_while_no_relay_ran_is_named_and_not_read",
    ),
    Bug(
        "epoch-not-fenced",
        "databases/sql/postgresql/publishers.sql",
        "where epoch = :epoch\nreturning epoch",
        "where :epoch > 0\nreturning epoch",
        "tests/integration/test_wal_relay.py::test_a_relay_that_another_publisher_relieved_confirms_nothing_more",
    ),
    Bug(
        "silence-of-rows-counted",
        "relay/wal_source.py",
        "            is_silent = False\n",
        '            is_silent = is_silent and not frame.startswith(b"w")\n',
        "tests/unit/test_wal_source.py::test_a_stream_without_rows_that_answers_is_never_lost",
    ),
    Bug(
        "silent-stream-waited-for",
        "relay/wal_source.py",
        "(silent := self._clock() - self._asked_at) >= self._answer_seconds",
        "(silent := self._clock() - self._asked_at) < 0",
        "tests/unit/test_wal_source.py::test_a_stream_that_answers_no_status_update_is_lost_in_time",
    ),
    Bug(
        "silent-look-waited-for",
        "relay/second_thread.py",
        "        if self.is_late(now, seconds):",
        "        if False:",
        "tests/unit/test_wal_source.py"
        "::test_a_look_that_is_not_answered_is_lost_in_time_and_its_thread_closes_what_it_uses",
    ),
    Bug(
        "slot-of-another-process-read-on",
        "relay/wal_source.py",
        "        if self._stream and slot.reader != self._stream.process:",
        "        if False:",
        "tests/unit/test_wal_source.py::test_a_stream_whose_slot_another_process_reads_is_lost",
    ),
    Bug(
        "standby-taken-for-a-missing-publication",
        "databases/replication.py",
        ' and diagnostic.source_function != "StandbySlotsHaveCaughtup"',
        "",
        "tests/integration/test_wal_relay.py::test_a_stream_is_not_lost_while_a_synchronized_standby_is_waited_for",
    ),
    Bug(
        "heartbeat-that-waits-for-a-standby-is-anothers",
        "kafka/own_heartbeats.py",
        "not is_known and not is_written and not",
        "not is_known and not",
        "tests/integration/test_wal_relay.py::test_a_heartbeat_whose_session_waits_for_a_standby_is_no_other_servers",
    ),
    Bug(
        "time-limit-of-a-statement-ends-the-relay",
        "relay/second_thread.py",
        "        if code == CANCELED:",
        "        if False:",
        "tests/unit/test_wal_source.py::test_a_lock_is_waited_out_with_a_line_in_the_log",
    ),
    Bug(
        "units-of-an-old-opening",
        "relay/wal_source.py",
        "        self._reset()\n        call, self._thread",
        "        call, self._thread",
        "tests/unit/test_wal_source.py"
        "::test_reports_of_units_that_were_read_before_the_source_was_opened_again_confirm_nothing",
    ),
    Bug(
        "positions-filtered",
        "relay/transactions.py",
        "        if route is not None:",
        "        if route is not None and int.from_bytes(frame[1:9], 'big') >= self._position:",
        "tests/integration/test_wal_relay.py::test_transactions_that_overlap_come_in_the_order_of_their_commits",
    ),
    Bug(
        "uncommitted-rows-streamed",
        "databases/replication.py",
        "proto_version '1'",
        "proto_version '2', streaming 'on'",
        "tests/integration/test_wal_relay.py"
        "::test_a_large_transaction_comes_in_bounded_units_and_is_confirmed_as_a_whole",
    ),
    Bug(
        "start-of-its-own",
        "databases/replication.py",
        "LOGICAL {position or Lsn(0)} (",
        "LOGICAL {self._row('select pg_catalog.pg_current_wal_flush_lsn()')[0]} (",
        "tests/integration/test_wal_relay.py::test_committed_events_are_delivered_in_order_and_none_again",
    ),
    Bug(
        "position-of-another-timeline-read-from",
        "relay/ownership.py",
        "if log != publisher.log or confirmed is None",
        "if confirmed is None",
        f"{_RELAY}::test_a_position_of_another_timeline_is_not_read_from_on_a_promoted_standby",
    ),
    Bug(
        "position-of-another-timeline-claimed",
        "relay/ownership.py",
        "if log == publisher.log else start",
        "if True else start",
        f"{_RELAY}::test_a_position_of_another_timeline_is_not_read_from_on_a_promoted_standby",
    ),
    Bug(
        "position-behind-the-log-read-from",
        "relay/ownership.py",
        "if flushed is None or confirmed > flushed:",
        "if False:",
        f"{_RELAY}::test_a_row_that_is_ahead_of_the_log_is_named_until_it_is_taken_over",
    ),
    Bug(
        "two-servers-of-one-system",
        "relay/postgresql_server.py",
        "if (log, stream.find_started()) != (known.log, known.started):",
        "if False:",
        f"{_RELAY}::test_nothing_is_read_where_look_and_stream_lead_to_different_servers",
    ),
    Bug(
        "claimed-without-the-slot",
        "relay/postgresql_server.py",
        "            reader=None if self._stream is None else self._stream.process,\n",
        "",
        f"{_RELAY}::test_a_relay_whose_stream_ended_while_it_opened_claims_nothing",
    ),
    Bug(
        "position-written-as-the-role-says",
        "relay/postgresql_server.py",
        " -c synchronous_commit=local",
        "",
        f"{_RELAY}::test_what_is_written_down_outlives_a_crash_whatever_the_role_says",
    ),
    Bug(
        "position-of-the-row-ignored",
        "relay/wal_source.py",
        "partial(self._server.start, start)",
        "partial(self._server.start, None)",
        f"{_RELAY}::test_a_crash_of_the_server_repeats_nothing_that_was_written_down",
    ),
    Bug(
        "commit-that-nobody-sees-not-waited-for",
        "connect/postgresql_database.py",
        "self.await_older(timeout_seconds=timeout_seconds)",
        "None",
        f"{_RELAY}::test_a_commit_that_lies_before_a_new_slot_is_visible_once_the_slot_is_made",
    ),
    Bug(
        "check-of-earlier-events-skipped",
        "operations/relay_slot.py",
        "            self._finish(named, facts, timeout_seconds)\n",
        "            pass\n",
        "tests/acceptance/test_relay_command.py"
        "::test_a_slot_of_which_no_relay_confirmed_the_start_is_checked_for_earlier_events",
    ),
    Bug(
        "publishers-table-not-made",
        "writer/outbox_schema.py",
        "and not table.is_numbered and not dialect.features.has_publications:",
        "and not table.is_numbered:",
        "tests/integration/test_adoption.py::test_a_relay_publishes_what_init_and_the_checks_call_ready[unnumbered]",
    ),
    Bug(
        "partitioner-of-librdkafka",
        "kafka/producing.py",
        '"partitioner": "murmur2_random"',
        '"partitioner": "consistent_random"',
        "tests/integration/test_relay_to_kafka.py::test_the_relays_messages_are_debeziums",
    ),
    Bug(
        "settings-of-the-role",
        "databases/replication.py",
        '    "DateStyle": "ISO, MDY",\n',
        "",
        "tests/integration/test_wal_relay.py::test_settings_of_the_role_change_no_byte",
    ),
    Bug(
        "acknowledged-on-receive",
        "relay/units.py",
        "            if first.undelivered:",
        "            if False:",
        "tests/unit/test_wal_source.py::test_what_was_received_is_confirmed_once_it_is_delivered",
    ),
    Bug(
        "acknowledged-on-receive-while-the-broker-is-down",
        "relay/units.py",
        "            if first.undelivered:",
        "            if False:",
        "tests/integration/exclusive/test_relay_faults.py"
        "::test_each_event_arrives_in_order_after_a_fault[reported-broker-down]",
    ),
    Bug(
        "keepalive-confirmed-in-mid-flight",
        "relay/units.py",
        "        self._units.append(unit)",
        "        self._units.append(unit)\n"
        "        self.confirmable = self.confirmable if unit.events else unit.position",
        "tests/unit/test_wal_source.py::test_a_keepalive_behind_events_under_way_confirms_nothing",
    ),
    Bug(
        "flush-taken-for-delivered",
        "relay/units.py",
        "        elif self.failure is None:\n            self.failure = self.translate(error, record)",
        "        else:\n            self.undelivered -= 1",
        "tests/unit/test_outstanding.py::test_what_failed_is_raised_and_nothing_behind_it_is_confirmed",
    ),
    Bug(
        "failed-report-produced-again-alone",
        "relay/kafka_sink.py",
        "        self._producer = make_producer(settings, logger)\n",
        "        class Again(confluent.Producer):\n"
        "            def produce(self, topic, value, key, partition, report, *rest):\n"
        "                def reported(error, record):\n"
        "                    if error is None:\n"
        "                        report(None, record)\n"
        "                    else:\n"
        "                        self.produce(topic, value, key, partition, report, *rest)\n"
        "\n"
        "                super().produce(topic, value, key, partition, reported, *rest)\n"
        "\n"
        "        # With the guarantee the client itself takes nothing after a failure.\n"
        '        self._producer = Again(settings | {"enable.gapless.guarantee": False}, logger=logger)\n',
        "tests/contract/test_sinks.py"
        "::test_a_message_that_was_refused_comes_before_those_behind_it_once_the_topic_takes_it",
    ),
    Bug(
        "first-message-not-awaited",
        "relay/open_partitions.py",
        "        if place in topic.waiting:\n",
        "        if False:\n",
        "tests/contract/test_sinks.py"
        "::test_nothing_arrives_behind_the_first_message_of_a_producer_that_is_refused[INVALID_TIMESTAMP]",
    ),
    Bug(
        "sizes-checked-before-sending",
        "kafka/producing.py",
        '"message.max.bytes": most,',
        '"message.max.bytes": max(limits),',
        "tests/contract/test_sinks.py::test_a_large_message_that_compresses_into_its_topics_limit_arrives",
    ),
    Bug(
        "producer-not-idempotent",
        "kafka/producing.py",
        '        "enable.idempotence": True,\n        "enable.gapless.guarantee": True,\n',
        "",
        "tests/contract/test_sinks.py::test_small_messages_fit_into_a_topic_with_a_low_limit",
    ),
    Bug(
        "producer-without-batches",
        "kafka/producing.py",
        '"batch.num.messages": 20_000',
        '"batch.num.messages": 1',
        "tests/contract/test_sinks.py::test_small_messages_fit_into_a_topic_with_a_low_limit",
    ),
    Bug(
        "message-given-up",
        "kafka/producing.py",
        '"message.timeout.ms": 0',
        '"message.timeout.ms": 2000',
        "tests/contract/test_sinks.py::test_a_producer_waits_for_brokers_and_batches_fit_the_topics",
    ),
    Bug(
        "row-read-before-its-slot",
        "relay/postgresql_server.py",
        "            slot=slot,",
        "            slot=read_slots(connection, self._driver).find(self._slot),",
        "tests/integration/test_wal_relay.py"
        "::test_a_look_while_another_relay_confirms_finds_no_slot_that_is_further_than_its_row",
    ),
    Bug(
        "copy-of-the-server-publishes",
        "kafka/own_heartbeats.py",
        "            if not is_known and not is_written and",
        "            if False and",
        "tests/integration/test_copied_server.py::test_a_relay_whose_database_went_back_does_not_publish",
    ),
    Bug(
        "heartbeats-of-any-history",
        "databases/heartbeats.py",
        "return None if new.previous == head.id else self._explain(new, head)",
        "return None",
        "tests/unit/test_heartbeats.py",
    ),
    Bug(
        "restored-database-not-compared",
        "databases/heartbeats.py",
        "if stored is not None else ()",
        "if False else ()",
        "tests/integration/test_recovery.py::test_a_dump_that_is_restored_is_found",
    ),
    Bug(
        "offset-trusted",
        "debezium/render/capture.py",
        '"offset.mismatch.strategy", "no_validation"',
        '"offset.mismatch.strategy", "trust_offset"',
        "tests/unit/test_render.py",
    ),
    Bug(
        "commit-not-read",
        "debezium/connector_offsets.py",
        'for key in ("lsn", "lsn_commit")',
        'for key in ("lsn",)',
        "tests/unit/test_plan.py::test_a_slot_at_the_commit_of_a_transaction_that_overlapped_another_is_not_ahead",
    ),
    Bug(
        "pruned-without-a-look",
        "operations/comparison.py",
        "missing = [row for row in read_rows() if not held.has(row)]",
        "missing: list[Row] = []",
        "tests/integration/exclusive/test_prune_damage.py::test_what_a_slot_was_moved_over_stays",
    ),
    Bug(
        "pruned-whatever-is-published",
        "operations/prune_by_slot.py",
        "for error in errors_in(tuple(check_publication(spec, facts.table, facts.publication))):",
        "for error in ():",
        "tests/integration/exclusive/test_prune_damage.py::test_a_column_list_and_a_table_in_the_place_of_the_published_one_are_refused",
    ),
    Bug(
        "republish-ignored",
        "debezium/slot_plan.py",
        "republishes = earlier is EarlierEvents.REPUBLISH and bool(state.written.rows)",
        "republishes = False",
        "tests/acceptance/test_remedies.py::test_what_verify_tells_of_missing_events_sends_them_on_a_healthy_slot",
    ),
    Bug(
        "debt-forgotten",
        "debezium/render/__init__.py",
        'return config.get("snapshot.mode") == REPUBLISHING and _SELECTED in config',
        "return False",
        "tests/acceptance/test_remedies.py::test_an_unfinished_republish_is_owed_until_it_is_paid",
    ),
    Bug(
        "late-events-die-young",
        "debezium/render/topics.py",
        '"message.timestamp.type", "LogAppendTime"',
        '"message.timestamp.type", "CreateTime"',
        "tests/unit/test_render.py",
    ),
    Bug(
        "time-of-the-record",
        "contract/wire.py",
        "created_at = self._created_at(headers, names.created_at, message)",
        "created_at = _recorded_at(message)",
        "tests/unit/test_wire.py",
    ),
    Bug(
        "purge-does-not-count",
        "connect/delete.py",
        "    if events != 0:",
        "    if events is None:",
        "tests/acceptance/test_operating_commands.py::test_a_purge_counts_what_was_not_published_and_wants_to_be_sure",
    ),
    Bug(
        "incarnation-while-the-slot-is-read",
        "connect/restore.py",
        "if slot is not None and slot.active:",
        "if slot is None:",
        "tests/integration/test_incarnation.py"
        "::test_while_the_connector_reads_or_stands_elsewhere_it_is_refused_with_the_order_of_steps",
    ),
    Bug(
        "outage-blamed-on-events",
        "consumer/retries.py",
        "if len(alike) >= self._aggregates:",
        "if self.cause is not None:",
        "tests/integration/test_outages.py::test_a_second_database_that_is_away_leaves_no_dead_event",
    ),
    Bug(
        "inner-cancellation-taken-for-the-consumers",
        "consumer/waits.py",
        "return task is not None and task.cancelling() > 0",
        "return task is not None",
        "tests/unit/test_async_consumer.py::test_a_cancellation_of_what_a_handler_awaits_is_the_handlers_failure[None]",
    ),
    Bug(
        "errors-without-a-host-called-alike",
        "consumer/retries.py",
        "if self.cause is not None or not cause.host:",
        "if self.cause is not None:",
        "tests/unit/test_circuit_breaker.py::test_errors_that_name_no_host_are_never_alike",
    ),
    Bug(
        "outage-tried-with-one-event",
        "consumer/backlog.py",
        "key=rank, default=None)",
        "key=lambda _: (0, 0), default=None)",
        "tests/unit/test_outages.py::test_healthy_aggregates_behind_dead_hosts_are_applied_within_a_minute",
    ),
    Bug(
        "offset-past-what-is-not-done-with",
        "consumer/item.py",
        "if self.turn.resumes_at is None else self.turn.resumes_at",
        "if self.turn.resumes_at is None else (self.message.offset or 0) + 1",
        "tests/unit/test_outages.py::test_an_event_that_was_applied_before_its_turn_is_not_read_again",
    ),
    Bug(
        "batch-of-any-length",
        "consumer/loop.py",
        "seconds=min(limits.batch_seconds, limits.handler_seconds / 2)",
        "seconds=float('inf')",
        "tests/unit/test_loop.py::test_slow_handlers_have_batches_that_end_in_time",
    ),
    Bug(
        "group-believed",
        "consumer/start_offsets.py",
        "return Start(min(committed, start), leader if is_led_anew else None)",
        "return None",
        "tests/integration/test_restored_database.py::test_each_effect_is_there_once_after_a_restore",
    ),
    Bug(
        "purged-is-a-conflict",
        "consumer/ordering.py",
        "    if not state.may_be_forgotten(event):\n        return Verdict.CONFLICT",
        "    if order.mode.is_gapless:\n        return Verdict.CONFLICT",
        "tests/integration/test_purge_inbox.py::test_republished_events_that_were_purged_are_duplicates_and_new_ones_go_on",
    ),
    Bug(
        "purge-of-one-topic",
        "cli/purge_inbox.py",
        "topics = sorted({*named, *served})",
        "topics = sorted(named)",
        "tests/acceptance/test_parked_command.py"
        "::test_ids_are_not_forgotten_before_the_events_of_every_topic_that_the_inbox_serves",
    ),
    Bug(
        "parked-events-left-alone",
        "consumer/parking.py",
        "frozenset(set(parked) - self._known) if is_guardian else frozenset()",
        "frozenset()",
        "tests/integration/test_parking.py"
        "::test_what_was_parked_under_a_topic_that_is_read_no_more_is_applied_when_it_is_tried_again",
    ),
)


def plant(bug: Bug, folder: Path) -> None:
    """Put a bug into a copy of the project.

    Raises:
        ValueError: The right text is not there exactly once.
    """
    file = folder / "cdc_outbox" / bug.file
    text = file.read_text()
    if text.count(bug.right) != 1:
        raise ValueError(f"{bug.name}: {bug.right!r} is not in {bug.file} exactly once")
    file.write_text(text.replace(bug.right, bug.wrong))


def copy_project(folder: Path) -> None:
    """Copy what is in the working tree and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


class Outcome(Enum):
    """What became of a test."""

    PASSED = "passed"
    FAILED = "failed"
    NOTHING_SHOWN = "nothing shown"
    """No test ran to its end: it does not exist, was skipped, cannot be imported, or a fixture failed."""


class Verdict(Enum):
    """What is printed of a bug."""

    CAUGHT = "caught"
    NOT_CAUGHT = "NOT CAUGHT"
    RED_BEFORE = "NOT SHOWN: the test does not pass without the bug"
    ERROR = "NOT SHOWN: the test ends in an error before it fails"


def run_test(test: str, folder: Path) -> Outcome:
    """Run a test in a copy of the project; an error of a fixture is no failure."""
    report = folder / "planted-report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--junitxml={report}", test]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    code = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False).returncode
    suite = ET.parse(report).getroot().find("testsuite") if report.exists() else None  # noqa: S314 - our own
    if suite is None:
        return Outcome.NOTHING_SHOWN
    if int(suite.attrib["failures"]) > 0:
        return Outcome.FAILED
    ran = int(suite.attrib["tests"]) - int(suite.attrib["skipped"])
    return Outcome.PASSED if code == 0 and ran > 0 else Outcome.NOTHING_SHOWN


@contextmanager
def copied_project() -> Iterator[Path]:
    """Yield a copy of the project, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_project(folder)
        yield folder


@cache
def passes_without_bugs(test: str) -> bool:
    """Tell whether a test passes in a copy without any bug."""
    with copied_project() as folder:
        return run_test(test, folder) is Outcome.PASSED


def judge(bug: Bug) -> Verdict:
    """Tell whether a bug's test passes without it, and fails with it."""
    if not passes_without_bugs(bug.test):
        return Verdict.RED_BEFORE
    with copied_project() as folder:
        plant(bug, folder)
        outcome = run_test(bug.test, folder)
    verdicts = {Outcome.FAILED: Verdict.CAUGHT, Outcome.PASSED: Verdict.NOT_CAUGHT}
    return verdicts.get(outcome, Verdict.ERROR)


def main() -> int:
    """Plant bugs and tell which are caught."""
    parser = argparse.ArgumentParser(prog="infra/faults planted", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=[bug.name for bug in BUGS], help="this one")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    passed = []
    for bug in BUGS:
        if options.only in {None, bug.name}:
            verdict = judge(bug)
            sys.stdout.write(f"{bug.name:<40}{verdict.value}\n")
            sys.stdout.flush()
            passed += [] if verdict is Verdict.CAUGHT else [bug]
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
