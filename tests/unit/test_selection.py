"""Which messages a replay may be asked for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cdc_outbox.consumer import Selection
from cdc_outbox.errors import ConfigError

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
