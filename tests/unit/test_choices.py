"""Options with a fixed set of values: a text of the set is taken, anything else is refused."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest

from cdc_outbox import (
    ConfigError,
    EventFormat,
    OutboxMode,
    OutboxTable,
    Partitions,
    PayloadType,
    SequenceMode,
    WireContract,
)
from cdc_outbox.consumer import InboxTable, Order
from cdc_outbox.databases.dialects import Dialect


def contract(**options: Any) -> WireContract:
    return WireContract(**{"aggregates": {"order": SequenceMode.GAPLESS}, **options})


MODES = {"order": SequenceMode.NONE}
CASES: list[tuple[Callable[..., object], str, StrEnum]] = [
    (OutboxTable, "mode", OutboxMode.DELETE),
    (OutboxTable, "payload_type", PayloadType.BYTES),
    (OutboxTable, "format", EventFormat.CLOUDEVENTS_BINARY),
    (OutboxTable, "partitions", Partitions.DAY),
    (contract, "payload_type", PayloadType.BYTES),
    (contract, "format", EventFormat.ENVELOPE),
    (Order, "mode", SequenceMode.INCREASING),
    (InboxTable, "dialect", Dialect.SQLITE),
]
IDS = [f"{make.__name__}.{option}" for make, option, _ in CASES]


@pytest.mark.parametrize(("make", "option", "member"), CASES, ids=IDS)
def test_the_text_of_a_member_is_the_member(make: Callable[..., object], option: str, member: StrEnum) -> None:
    assert make(**{option: str(member)}) == make(**{option: member})
    assert getattr(make(**{option: str(member)}), option) is member


@pytest.mark.parametrize("given", ["bogus", "", 1, ["day"]], ids=repr)
@pytest.mark.parametrize(("make", "option", "member"), CASES, ids=IDS)
def test_anything_else_is_refused_with_the_choices(
    make: Callable[..., object], option: str, member: StrEnum, given: object
) -> None:
    with pytest.raises(
        ConfigError, match=f"^{option} must be .*{member}.*, not {given!r}".replace("[", r"\[")
    ) as caught:
        make(**{option: given})
    assert caught.value.field == option


def test_the_dialect_of_a_default_inbox_is_one_of_them() -> None:
    on: Any = InboxTable.on
    assert on("mysql") == on(Dialect.MYSQL)
    with pytest.raises(ConfigError, match=r"^dialect must be one of postgresql, .* not 'oracle'"):
        on("oracle")


def test_an_aggregate_types_numbering_is_one_of_them() -> None:
    assert contract(aggregates={"order": "none"}) == contract(aggregates=MODES)
    assert contract(aggregates={"order": "none"}).mode_of("order") is SequenceMode.NONE
    with pytest.raises(ConfigError, match=r"^aggregates\.order must be one of gapless, increasing or none, not 'all'"):
        contract(aggregates={"order": "all"})
