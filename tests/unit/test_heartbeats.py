"""What a chain of heartbeats tells: each history, and each thing that must not look like one."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_outbox.databases.heartbeats import GRACE, Acceptance, Chain, Heartbeat, HeartbeatKind, Stored, read_record
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.message import Message
from cdc_outbox.operations.recovery import findings

BEGIN = datetime(2026, 11, 22, tzinfo=UTC)


def beats(count: int, *, after: Heartbeat | None = None, branch: str = "a") -> list[Heartbeat]:
    """Return heartbeats that follow each other, a minute apart."""
    made: list[Heartbeat] = []
    for _ in range(count):
        last = made[-1] if made else after
        number = 1 if last is None else last.number + 1
        made.append(
            Heartbeat(
                number=number,
                id=f"{branch}{number}",
                previous=None if last is None else last.id,
                at=BEGIN + timedelta(minutes=number),
            )
        )
    return made


def chain(*records: Heartbeat | Acceptance, starts_at: int = 0) -> Chain:
    made = Chain(starts_at=starts_at)
    for record in records:
        made.add(record)
    return made


def stored(heartbeats: Sequence[Heartbeat], *, later: timedelta = timedelta(), runs: bool | None = None) -> Stored:
    return Stored(heartbeats=heartbeats, now=(heartbeats[-1].at if heartbeats else BEGIN) + later, runs=runs)


def accepting(*ids: str, at: datetime = BEGIN) -> Acceptance:
    return Acceptance(ids=frozenset(ids), by="ops", at=at)


def kinds(made: Chain, database: Stored | None = None) -> list[tuple[HeartbeatKind, str]]:
    return [(found.kind, found.id) for found in made.breaks(database)]


OLD = beats(18)
RESTORED = [*OLD[:14], *beats(9, after=OLD[13], branch="b")]


def test_an_unbroken_chain_and_its_repeats_show_nothing() -> None:
    made = chain(*OLD, *OLD[5:], OLD[0])
    assert made.breaks(stored(OLD)) == []
    assert made.head == OLD[-1]


@pytest.mark.parametrize("behind", [0, 1, 3])
def test_what_is_not_published_yet_shows_nothing_for_a_while(behind: int) -> None:
    made = chain(*OLD[: 18 - behind])
    assert made.breaks(stored(OLD, later=GRACE - timedelta(minutes=max(0, behind - 1)))) == []


def test_a_restored_database_shows_at_the_first_look_before_it_writes() -> None:
    [found] = chain(*OLD).breaks(stored(OLD[:14]))
    assert (found.kind, found.id) == (HeartbeatKind.WENT_BACK, "a14+")
    assert "restored to heartbeat 14, and the topic contains 18 of 2026-11-22 00:18:00+0000" in found.text
    assert "committed between 2026-11-22 00:14:00+0000 and the restore may be missing" in found.text


@pytest.mark.parametrize("is_published", [False, True])
def test_what_a_restore_took_lies_between_the_last_joint_heartbeat_and_the_first_one_since(
    *, is_published: bool
) -> None:
    since = [replace(each, at=each.at + timedelta(hours=1)) for each in RESTORED[14:]]
    made = chain(*OLD, *(since if is_published else ()))
    [found] = made.breaks(stored([*OLD[:14], *since]))
    assert "committed between 2026-11-22 00:14:00+0000 and 2026-11-22 01:15:00+0000 may be missing" in found.text


@pytest.mark.parametrize("since", range(1, 10))
def test_it_shows_while_the_topic_is_silent_however_many_it_wrote(since: int) -> None:
    assert kinds(chain(*OLD), stored(RESTORED[: 14 + since])) == [(HeartbeatKind.WENT_BACK, "b15")]


def test_everything_is_published_before_the_last_joint_heartbeat_unless_the_topic_shows_a_break() -> None:
    there = stored([replace(each, lsn=Lsn(each.number)) for each in RESTORED])
    assert chain(*OLD).published_until(there) == Lsn(14)
    assert chain(*beats(3, branch="c")).published_until(there) is None
    # The last one in common is of the new history then, and commits before it were passed over.
    passed = chain(*OLD, *RESTORED[20:])
    assert passed.published_until(there) is None
    passed.add(accepting("b21"))
    assert passed.published_until(there) == Lsn(23)
    assert chain(*OLD).published_until(stored(RESTORED)) is None  # another server's log, as in a dump


def test_the_topic_alone_shows_it_when_the_new_history_arrives() -> None:
    assert kinds(chain(*OLD, *RESTORED[14:])) == [(HeartbeatKind.WENT_BACK, "b15")]
    assert kinds(chain(*OLD, *RESTORED[14:]), stored(RESTORED)) == [(HeartbeatKind.WENT_BACK, "b15")]


def test_events_that_the_log_passed_over_are_a_gap() -> None:
    [found] = chain(*OLD, *RESTORED[20:]).breaks(stored(RESTORED))
    assert (found.kind, found.id) == (HeartbeatKind.GAP, "b21")
    assert "heartbeats 19 to 20 did not arrive" in found.text


@pytest.mark.parametrize("passed", [1, 2, 3, 4])
def test_the_number_that_the_last_heartbeat_had_shows_another_history_and_no_gap(passed: int) -> None:
    [found] = chain(*OLD, *RESTORED[14 + passed :]).breaks()
    assert (found.kind, found.id) == (HeartbeatKind.WENT_BACK, f"b{15 + passed}")
    assert f"heartbeat {15 + passed} of" in found.text
    assert "committed between its backup and" in found.text


COPY, ORIGINAL = beats(3, after=OLD[-1], branch="c"), beats(3, after=OLD[-1])


@pytest.mark.parametrize(
    ("records", "newest"),
    [
        ([], None),
        ([*OLD], "a18"),
        ([*OLD, *OLD[5:]], "a18"),
        ([*OLD, *ORIGINAL, *COPY], "a21"),
        ([*OLD, COPY[0], ORIGINAL[0], COPY[1], ORIGINAL[1]], "c20"),
        ([*OLD, *RESTORED[14:]], "a18"),
        # What did not arrive is no other server's.
        ([*OLD[:5], *OLD[9:]], "a18"),
        ([*OLD, ORIGINAL[0], *COPY, ORIGINAL[2]], "a21"),
        # An acceptance leaves open which of them publishes next.
        ([*OLD, accepting("b15")], None),
        ([*OLD, accepting("b15"), OLD[17], *RESTORED[14:]], "b23"),
        ([*OLD, ORIGINAL[0], accepting("b15"), COPY[0], ORIGINAL[1], COPY[1]], "c20"),
    ],
    ids=[
        "none",
        "one server",
        "repeated",
        "the original first",
        "the copy first",
        "restored",
        "gap",
        "gap of two",
        "accepted",
        "accepted and restored",
        "accepted and copied",
    ],
)
def test_of_several_histories_the_one_that_went_on_first_publishes(
    records: Sequence[Heartbeat | Acceptance], newest: str | None
) -> None:
    found = chain(*records).newest
    assert (None if found is None else found.id) == newest


def test_a_database_without_the_state_begins_at_one_again() -> None:
    fresh = beats(3, branch="c")
    [nothing] = chain(*OLD).breaks(replace(stored([]), table="public.outbox_heartbeats"))
    assert (nothing.kind, nothing.id) == (HeartbeatKind.NONE, "a18+")
    assert nothing.text == "the topic contains 18 heartbeats, and public.outbox_heartbeats contains none"
    [finding] = findings("heartbeats", [nothing], "orders")
    assert (finding.code, "compare the connector with the spec by `cdc-outbox plan`" in finding.remedy) == (
        "OP401",
        True,
    )
    assert kinds(chain(*OLD), stored(fresh)) == [(HeartbeatKind.WENT_BACK, "c1")]
    assert kinds(chain(*OLD, *fresh)) == [(HeartbeatKind.WENT_BACK, "c1")]


def test_two_databases_take_turns_and_are_found_again_after_an_acceptance() -> None:
    clone, original = beats(3, after=OLD[-1], branch="c"), beats(3, after=OLD[-1])
    turns = [each for pair in zip(original, clone, strict=True) for each in pair]
    assert kinds(chain(*OLD, *turns)) == [(HeartbeatKind.WENT_BACK, "c19"), (HeartbeatKind.TWO, "c21")]
    accepted = accepting("c19", "c21")
    assert kinds(chain(*OLD, *turns, accepted)) == []
    [more] = beats(1, after=original[-1])
    assert kinds(chain(*OLD, *turns, accepted, more)) == [(HeartbeatKind.TWO, "a22")]


def test_an_acceptance_ends_one_finding_and_not_the_next() -> None:
    made = chain(*OLD, *RESTORED[14:], accepting("b15"))
    assert kinds(made, stored(RESTORED)) == []
    again = [*RESTORED[:20], *beats(2, after=RESTORED[19], branch="d")]
    assert kinds(made, stored(again)) == [(HeartbeatKind.WENT_BACK, "d21")]
    for each in again[20:]:
        made.add(each)
    assert kinds(made, stored(again)) == [(HeartbeatKind.WENT_BACK, "d21")]


def test_a_second_restore_to_the_same_state_is_another_finding() -> None:
    made = chain(*OLD, *RESTORED[14:], accepting("b15"))
    again = [*OLD[:14], *beats(1, after=OLD[13], branch="e")]
    assert kinds(made, stored(again)) == [(HeartbeatKind.WENT_BACK, "e15")]
    assert kinds(made, stored(OLD[:14])) == [(HeartbeatKind.WENT_BACK, "a14+")]


@pytest.mark.parametrize(("number", "missing"), [(2, "heartbeat 1"), (10, "heartbeats 1 to 9")])
def test_a_topic_that_was_made_anew_or_whose_first_heartbeats_never_came_does_not_begin_at_one(
    number: int, missing: str
) -> None:
    made = chain(*OLD[number - 1 :])
    assert kinds(made) == [(HeartbeatKind.ANEW, f"a{number}")]
    assert [each.text.partition(", and earlier")[0] for each in made.breaks()] == [
        f"the topic begins with heartbeat {number}: either it was created again, or {missing} did not arrive"
    ]


def test_a_topic_of_which_records_were_deleted_does_not_begin_at_one() -> None:
    assert kinds(chain(*OLD[9:], starts_at=9)) == []


def test_silence_is_told_after_a_while() -> None:
    late = GRACE + timedelta(seconds=1)
    assert kinds(chain(*OLD), stored(OLD, later=late)) == []  # a connector that is stopped writes none
    [written] = chain(*OLD).breaks(stored(OLD, later=late, runs=True))
    assert (written.kind, "no heartbeat was written since" in written.text) == (HeartbeatKind.SILENT, True)
    [arrived] = chain(*OLD[:17]).breaks(stored(OLD, later=late, runs=False))
    assert (arrived.kind, "heartbeat 18" in arrived.text) == (HeartbeatKind.SILENT, True)


@pytest.mark.parametrize(
    ("minutes", "expected"), [(3, []), (4, [(HeartbeatKind.SILENT, "b19!")]), (1400, [(HeartbeatKind.SILENT, "b19!")])]
)
def test_silence_after_an_acceptance_is_told(minutes: int, expected: list[tuple[HeartbeatKind, str]]) -> None:
    """A restore is accepted at 00:18 before anything is published, and publication or offset are still wrong."""
    made = chain(*OLD, accepting("b15", at=RESTORED[17].at))
    there = [*OLD[:14], *beats(4 + minutes, after=OLD[13], branch="b")]
    late = timedelta(seconds=30)
    assert kinds(made, stored(there, later=late, runs=True)) == expected
    for each in there[18:]:  # once the log has passed the offset, only what it passed over is left
        made.add(each)
    assert kinds(made, stored(there, later=late, runs=True)) == [(HeartbeatKind.WENT_BACK, "b19")]


def test_a_connector_that_is_stopped_after_an_acceptance_is_not_silent() -> None:
    made = chain(*OLD, accepting("b15", at=RESTORED[-1].at))
    assert kinds(made, stored(RESTORED, later=timedelta(days=1), runs=False)) == []


def test_another_server_that_goes_on_from_the_last_heartbeat_is_an_upgrade() -> None:
    moved = Heartbeat(number=19, id="x", previous="a18", at=BEGIN, system="other")
    assert kinds(chain(*OLD, moved), stored([*OLD, moved])) == []


@pytest.mark.parametrize("seed", range(200))
def test_random_histories_show_exactly_their_restores(seed: int) -> None:
    """Each heartbeat is delivered in order, some again; each restore loses at least one that was delivered."""
    random, made, database, expected = Random(seed), Chain(), list[Heartbeat](), list[str]()  # noqa: S311 - the seed is the test's
    for life in range(random.randrange(1, 5)):
        if life:
            database = database[: random.randrange(1, len(database))]
        new = beats(random.randrange(2, 6), after=database[-1] if database else None, branch=f"l{life}-")
        expected += [new[0].id] if life else []
        for each in new:
            database.append(each)
            made.add(each)
            for again in database[random.randrange(len(database)) :] if random.random() < 0.3 else ():
                made.add(again)
        assert [found.id for found in made.breaks(stored(database))] == expected


ID, PREVIOUS = str(UUID(int=7)), str(UUID(int=6))
CONTENT = {"number": 7, "previous": PREVIOUS, "at": "2026-11-22T02:00:00+02:00", "system": "7345", "lsn": "0/1"}


def record(value: object, event_id: bytes = ID.encode(), *, offset: int = 3) -> Message:
    encoded = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    return Message(topic="t", key=b"orders", value=encoded, headers=(("id", event_id),), offset=offset)


@pytest.mark.parametrize(
    "value",
    [
        CONTENT,
        {"eventType": "Heartbeat", "payload": CONTENT},
        {"data": json.dumps(CONTENT), "specversion": "1.0"},
    ],
)
def test_a_heartbeat_is_read_in_every_format(value: object) -> None:
    read = read_record(record(value))
    assert read == Heartbeat(number=7, id=ID, previous=PREVIOUS, at=BEGIN, system="7345", offset=3)


ACCEPTED = {"accepted": [ID, f"{ID}+"], "by": "ops", "at": "2026-11-22T00:00:00+00:00", "found": ["gap"]}


@pytest.mark.parametrize(
    ("value", "event_id"),
    [
        *((value, ID.encode()) for value in (None, b"", b"\xff", b"[]", b'"x"', b"{}", b'{"a": {"b": 1}}')),
        (b'{"a": ' * 100_000, ID.encode()),
        (b"[" * 100_000, ID.encode()),
        *((CONTENT, event_id) for event_id in (b"", b"\xff", b"x", b"a\0b", ID[:-1].encode(), f"{ID}\n".encode())),
        *(({**CONTENT, "number": number}, ID.encode()) for number in (None, "7", True, 7.0, 0, -1, 2**63, 10**30)),
        *(({**CONTENT, "previous": previous}, ID.encode()) for previous in (6, "p", f"{PREVIOUS} ", [PREVIOUS])),
        *(({**CONTENT, "system": system}, ID.encode()) for system in (7, None, "s", "9" * 21, "7\n")),
        *(
            ({**content, "at": at}, ID.encode())
            for content in (CONTENT, ACCEPTED)
            for at in (None, 5, "yesterday", "2026-11-22T00:00:00", "2026-11-22", "0001-01-01T00:00:00+14:00")
        ),
        *(({**ACCEPTED, "accepted": ids}, ID.encode()) for ids in (5, ID, {ID: 1}, [None], [[ID]], ["a"], [f"{ID}-"])),
        *(({**ACCEPTED, "found": found}, ID.encode()) for found in (5, "gap", {"gap": 1})),
    ],
)
def test_what_is_no_heartbeat_is_passed_over(value: object, event_id: bytes) -> None:
    """A relay reads the topic at each start, and must not end with a record that another client wrote."""
    assert read_record(record(value, event_id)) is None


def test_an_acceptance_is_read_as_it_was_written() -> None:
    said = Acceptance(ids=frozenset({ID, f"{PREVIOUS}+"}), by="ops@host", at=BEGIN, found=("went back",))
    assert read_record(record(said.content())) == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.datetimes().map(datetime.isoformat),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
IDS = st.sampled_from([str(UUID(int=number)) for number in range(1, 9)])
TIMES = st.datetimes(timezones=st.sampled_from([UTC])).map(datetime.isoformat)
HOSTILE = st.fixed_dictionaries(
    {},
    optional={
        "number": st.integers(1, 9) | st.sampled_from([2**63 - 1, 2**63]) | JSON,
        "previous": st.none() | IDS | JSON,
        "at": TIMES | JSON,
        "system": st.sampled_from(["", "7", "8"]) | JSON,
        "accepted": st.lists(IDS) | JSON,
        "by": JSON,
        "found": JSON,
    },
)
"""Records that are heartbeats and acceptances as seldom as not."""


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()


@given(st.lists(st.tuples(st.binary() | (HOSTILE | JSON).map(dump), IDS.map(str.encode) | st.binary()), max_size=12))
@example([(dump(CONTENT | {"at": "2026-11-28T07:00:00"}), ID.encode())])
def test_whatever_stands_in_the_topic_a_chain_can_be_read_and_its_breaks_accepted(
    records: list[tuple[bytes, bytes]],
) -> None:
    written = [Heartbeat(number=1, id=str(UUID(int=1)), previous=None, at=BEGIN)]
    written += [Heartbeat(number=2, id=str(UUID(int=2)), previous=written[0].id, at=BEGIN)]
    made, there = chain(*written), stored(written, runs=True)
    for offset, (value, event_id) in enumerate(records):
        found = read_record(record(value, event_id, offset=offset))
        if found is not None:
            made.add(found)
        list(findings("t", made.breaks(there), "orders"))
        made.published_until(there)
    shown = made.breaks(there)
    accepted = Acceptance(ids=frozenset(each.id for each in shown), by="ops", at=there.now)
    again = read_record(record(accepted.content()))
    assert again == accepted
    made.add(accepted)
    assert made.breaks(there) == []
