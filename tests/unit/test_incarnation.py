import pytest

from cdc_outbox import ConfigError
from cdc_outbox.databases.source import Source, constant_of
from cdc_outbox.errors import OutboxError
from cdc_outbox.writer.incarnation import next_source


@pytest.mark.parametrize("text", ["orders.1", "a.b.12", "orders.999999999"])
def test_a_source_is_a_name_and_a_number(text: str) -> None:
    assert str(Source.parse(text)) == text


@pytest.mark.parametrize("text", ["", "orders", ".1", "orders.", "orders.0", "orders.01", "orders.-1", "orders.1x"])
def test_anything_else_is_none(text: str) -> None:
    assert Source.parse(text) is None


@pytest.mark.parametrize(
    ("current", "before", "after", "expected"),
    [
        ("orders.1", "orders.1", None, "orders.2"),
        ("orders.9", "orders.9", None, "orders.10"),
        ("orders.2", "orders.1", None, None),
        ("orders.1", "orders.1", "orders.5", "orders.5"),
        ("orders.5", "orders.1", "orders.5", None),
        ("shop.4", "shop.4", None, "orders.1"),
        ("anything", "anything", None, "orders.1"),
        ("orders.1", "shop.4", "orders.1", None),
    ],
)
def test_what_follows(current: str, before: str, after: str | None, expected: str | None) -> None:
    assert next_source(current, before=before, after=after, first_source="orders.1") == expected


def test_a_wrong_belief_changes_nothing() -> None:
    for before in ("orders.1", "orders.4"):
        with pytest.raises(OutboxError, match=r"the source is orders\.3, not"):
            next_source("orders.3", before=before, after=None, first_source="orders.1")


@pytest.mark.parametrize("before", ["orders", "order.1", "shop.4"])
def test_a_slip_of_the_pen_is_not_taken_for_a_second_run(before: str) -> None:
    with pytest.raises(OutboxError, match=rf"the source is orders\.1, not {before}; nothing was changed"):
        next_source("orders.1", before=before, after=None, first_source="orders.1")


@pytest.mark.parametrize("after", ["orders.1", "shop.2", "orders", "orders.0"])
def test_what_cannot_follow_is_refused(after: str) -> None:
    with pytest.raises(ConfigError, match=r"it must be orders\.2 or later"):
        next_source("orders.1", before="orders.1", after=after, first_source="orders.1")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'orders.1'::text", "orders.1"),
        ("'o''clock.1'::text", "o'clock.1"),
        ("'x'::character varying", "x"),
        ("CURRENT_USER", None),
        ("('a'::text || 'b'::text)", None),
        ("", None),
    ],
)
def test_a_default_is_read_if_it_is_a_constant(expression: str, text: str | None) -> None:
    assert constant_of(expression) == text
