"""Which messages a replay may be asked for."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cdc_outbox.consumer import Selection
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import ConfigError
from cdc_outbox.event import SequenceMode
from cdc_outbox.formats.timestamps import to_milliseconds
from tests.support.events import make_event

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"since": NOON, "before": NOON}, "before"),
        ({"since": NOON, "before": NOON - timedelta(hours=1)}, "before"),
        ({"first_offset": 3}, "partition"),
        ({"partition": 0, "first_offset": 4, "last_offset": 3}, "last_offset"),
    ],
)
def test_what_no_message_can_be_is_refused(wanted: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Selection(**wanted)
    assert caught.value.field == f"Selection.{field}"


def test_what_messages_can_be_is_taken() -> None:
    Selection(since=NOON, before=NOON + timedelta(seconds=1), partition=0, first_offset=3, last_offset=3)


def test_an_event_is_from_when_it_was_created_and_not_from_when_its_record_was_made() -> None:
    contract, hour = WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic="t"), timedelta(hours=1)
    message = replace(
        contract.message_of(replace(make_event(1), created_at=NOON)), timestamp_ms=to_milliseconds(NOON + 3 * hour)
    )
    event = contract.event_of(message)
    assert Selection(since=NOON, before=NOON + hour).takes(event)
    assert not Selection(since=NOON + hour).takes(event)
