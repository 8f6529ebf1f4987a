"""Health follows progress: idle is well, work without a commit is not."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.errors import ConfigError
from cdc_outbox.monitoring import (
    Health,
    HealthLimits,
    HealthStatus,
    PausedPartition,
    Progress,
    RelayProgress,
    RelayState,
    health_of,
)

NOW = 10_000.0
RUNNING = Progress(consumer="shipping", started_at=NOW - 5000, polled_at=NOW - 0.5, events=7)
LIMITS = HealthLimits(stuck_after_seconds=30)


def health(progress: Progress) -> Health:
    return health_of(progress, now=NOW, limits=LIMITS)


def test_who_is_idle_is_well_however_long() -> None:
    assert health(replace(RUNNING, committed_at=NOW - 4000)) == Health(status=HealthStatus.OK, reasons=())
    assert health(RUNNING).status is HealthStatus.OK


def test_who_has_work_and_commits_is_well_though_the_work_never_ends() -> None:
    busy = replace(RUNNING, waiting_since=NOW - 4000, committed_at=NOW - 1, lag_events=1_000_000)
    assert health(busy).status is HealthStatus.OK


def test_the_first_message_after_a_quiet_night_is_no_alarm() -> None:
    woken = replace(RUNNING, waiting_since=NOW - 1, committed_at=NOW - 4000, lag_events=1)
    assert health(woken).status is HealthStatus.OK


@pytest.mark.parametrize("committed_at", [None, NOW - 4000, NOW - 40])
def test_work_without_a_commit_is_stuck(committed_at: float | None) -> None:
    found = health(replace(RUNNING, waiting_since=NOW - 30, committed_at=committed_at))
    assert found == Health(
        status=HealthStatus.STUCK, reasons=("messages are available, but nothing was committed for 30 s",)
    )


def test_work_that_stopped_being_committed_is_stuck() -> None:
    [reason] = health(replace(RUNNING, waiting_since=NOW - 4000, committed_at=NOW - 31)).reasons
    assert reason.endswith("nothing was committed for 31 s")
    assert health(replace(RUNNING, waiting_since=NOW - 4000, committed_at=NOW - 29)).reasons == ()


@pytest.mark.parametrize(
    "silent", [replace(RUNNING, polled_at=NOW - 30), replace(RUNNING, polled_at=None, started_at=NOW - 30)]
)
def test_who_does_not_ask_for_messages_is_stuck(silent: Progress) -> None:
    assert health(silent).reasons == ("no request was sent to the brokers for 30 s",)
    assert health(silent).status is HealthStatus.STUCK


@pytest.mark.parametrize(("seconds", "status"), [(0, "degraded"), (29, "degraded"), (30, "stuck")])
def test_who_is_not_a_member_of_its_group_is_not_well_and_after_a_while_stuck(seconds: float, status: str) -> None:
    found = health(replace(RUNNING, absent_since=NOW - seconds))
    assert found.status == status
    assert found.reasons[-1] == "it is not a member of its group"
    assert (f"it has not been a member of its group for {seconds} s" in found.reasons[0]) is (status == "stuck")


def test_who_has_no_partition_because_others_have_them_all_is_well_and_says_so() -> None:
    idle = replace(RUNNING, unassigned_reason="the group has 4 members for 3 partitions")
    assert health(idle) == Health(status=HealthStatus.OK, reasons=())
    assert health(idle).as_json(idle, now=NOW)["unassigned_reason"] == "the group has 4 members for 3 partitions"


def test_who_has_just_started_is_well() -> None:
    assert health(Progress(consumer="shipping", started_at=NOW - 1)).status is HealthStatus.OK


def test_a_full_park_is_stuck_and_one_with_room_is_not() -> None:
    parked = replace(RUNNING, waiting_events=600, dead_events=400)
    assert (
        health(replace(parked, max_parked_events=1000)).reasons[0]
        == "the parking limit is reached: 1,000 of 1,000 events"
    )
    assert health(replace(parked, max_parked_events=1000)).status is HealthStatus.STUCK
    assert health(replace(parked, max_parked_events=1001)).status is HealthStatus.DEGRADED
    parked = replace(parked, parked_bytes=2000)
    assert (
        health(replace(parked, max_parked_bytes=2000)).reasons[0]
        == "the parking limit is reached: 2,000 of 2,000 bytes"
    )
    assert health(replace(parked, max_parked_bytes=2000)).status is HealthStatus.STUCK
    assert health(replace(parked, max_parked_bytes=2001)).status is HealthStatus.DEGRADED
    assert health(parked).status is HealthStatus.DEGRADED


@pytest.mark.parametrize(
    ("progress", "reason"),
    [
        (replace(RUNNING, outage="the database"), "waiting for the database"),
        (replace(RUNNING, gap_seconds=61.4), "an event has been missing for 61 s"),
        (replace(RUNNING, dead_events=3), "3 parked events to retry or skip"),
        (replace(RUNNING, paused=(PausedPartition(topic="t", partition=2, reason="why"),)), "paused: t[2]: why"),
    ],
)
def test_what_somebody_should_look_at_does_not_make_it_stuck(progress: Progress, reason: str) -> None:
    assert health(progress) == Health(status=HealthStatus.DEGRADED, reasons=(reason,))


def test_events_that_wait_for_their_retry_are_nobodys_business() -> None:
    assert health(replace(RUNNING, waiting_events=5)).status is HealthStatus.OK


def test_the_worst_comes_first() -> None:
    both = replace(RUNNING, outage="the database", waiting_since=NOW - 99)
    assert [reason[:12] for reason in health(both).reasons] == ["messages are", "waiting for "]


def test_its_json_has_the_reasons_and_what_they_were_told_by() -> None:
    paused = (PausedPartition(topic="orders", partition=2, reason="park is full"),)
    progress = replace(RUNNING, paused=paused, lag_events=9)
    assert json.loads(json.dumps(health(progress).as_json(progress, now=NOW))) == {
        "status": "degraded",
        "reasons": ["paused: orders[2]: park is full"],
        "consumer": "shipping",
        "events": 7,
        "lag_events": 9,
        "unassigned_reason": "",
        "absent_seconds_ago": None,
        "paused": [{"topic": "orders", "partition": 2, "reason": "park is full"}],
        "waiting_events": 0,
        "dead_events": 0,
        "max_parked_events": None,
        "parked_bytes": 0,
        "max_parked_bytes": None,
        "gap_seconds": None,
        "outage": "",
        "stopping": False,
        "started_seconds_ago": 5000.0,
        "polled_seconds_ago": 0.5,
        "committed_seconds_ago": None,
        "waiting_seconds_ago": None,
    }


RELAY = RelayProgress(relay="orders", state=RelayState.READING, started_at=NOW - 5000, polled_at=NOW - 0.5)


@pytest.mark.parametrize(
    ("progress", "status", "reasons"),
    [
        (RELAY, HealthStatus.OK, []),
        (replace(RELAY, state=RelayState.STANDBY), HealthStatus.OK, []),
        (replace(RELAY, waiting_since=NOW - 29), HealthStatus.OK, []),
        (replace(RELAY, waiting_since=NOW - 4000, delivered_at=NOW - 1), HealthStatus.OK, []),
        (
            replace(RELAY, waiting_since=NOW - 30),
            HealthStatus.STUCK,
            ["events were read, but none was delivered for 30 s"],
        ),
        (replace(RELAY, polled_at=NOW - 30), HealthStatus.STUCK, ["the relay's loop has not run for 30 s"]),
        (
            replace(RELAY, failing_since=NOW - 1, error="BrokerUnavailableError"),
            HealthStatus.DEGRADED,
            ["the last attempt failed: BrokerUnavailableError"],
        ),
        (
            replace(RELAY, failing_since=NOW - 30, error="BrokerUnavailableError"),
            HealthStatus.STUCK,
            [
                "every attempt has failed for 30 s",
                "the last attempt failed: BrokerUnavailableError",
            ],
        ),
        (replace(RELAY, warning="the slot is unreserved"), HealthStatus.DEGRADED, ["the slot is unreserved"]),
    ],
)
def test_the_health_of_a_relay(progress: RelayProgress, status: HealthStatus, reasons: list[str]) -> None:
    assert health_of(progress, now=NOW, limits=LIMITS) == Health(status=status, reasons=tuple(reasons))


def test_the_json_of_a_relay_has_its_state_and_its_figures() -> None:
    told = json.loads(json.dumps(health_of(RELAY, now=NOW).as_json(RELAY, now=NOW)))
    assert (told["status"], told["relay"], told["state"], told["events"]) == ("ok", "orders", "reading", 0)
    assert (told["polled_seconds_ago"], told["waiting_seconds_ago"], told["lag_bytes"]) == (0.5, None, None)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_limit_that_would_always_or_never_strike_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match="stuck_after_seconds must be greater than 0"):
        HealthLimits(stuck_after_seconds=seconds)


@given(
    progress=st.builds(
        Progress,
        consumer=st.just("shipping"),
        started_at=st.floats(0, NOW),
        polled_at=st.none() | st.floats(0, NOW),
        committed_at=st.none() | st.floats(0, NOW),
        waiting_since=st.none() | st.floats(0, NOW),
        dead_events=st.integers(0, 5),
        max_parked_events=st.none() | st.integers(1, 5),
        outage=st.sampled_from(["", "the database"]),
    ),
    later=st.floats(0, 1000),
)
def test_waiting_alone_never_makes_it_better(progress: Progress, later: float) -> None:
    order = list(HealthStatus)
    first, second = (health_of(progress, now=now, limits=LIMITS).status for now in (NOW, NOW + later))
    assert order.index(first) <= order.index(second)
    assert (first is HealthStatus.OK) == (health_of(progress, now=NOW, limits=LIMITS).reasons == ())
