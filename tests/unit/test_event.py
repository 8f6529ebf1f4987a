import time
from uuid import UUID

from cdc_outbox.event import new_event_id


def test_event_ids_are_version_7_and_carry_the_time() -> None:
    before = time.time_ns() // 1_000_000
    event_id = UUID(new_event_id())
    after = time.time_ns() // 1_000_000
    assert (event_id.version, event_id.variant) == (7, "specified in RFC 4122")
    assert before <= event_id.int >> 80 <= after


def test_event_ids_sort_by_time_and_never_repeat() -> None:
    ids = []
    for _ in range(200):
        ids.append(new_event_id())
        time.sleep(0)
    assert len(set(ids)) == len(ids)
    milliseconds = [UUID(event_id).int >> 80 for event_id in ids]
    assert milliseconds == sorted(milliseconds)
