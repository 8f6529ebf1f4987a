import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox import ConfigError
from cdc_outbox.lsn import Lsn

positions = st.integers(0, 2**64 - 1).map(Lsn)


@given(positions)
def test_text_and_value_are_the_same_position(lsn: Lsn) -> None:
    assert Lsn.parse(str(lsn)) == lsn


@given(positions, positions)
def test_positions_compare_as_postgresql_compares_their_text(one: Lsn, other: Lsn) -> None:
    def numbers(lsn: Lsn) -> list[int]:
        return [int(half, 16) for half in str(lsn).split("/")]

    assert (one < other) == (numbers(one) < numbers(other))


def test_the_text_is_postgresqls() -> None:
    assert str(Lsn(24323008)) == "0/17323C0"
    assert Lsn.parse("16/B374D848").value == 0x16B374D848


@pytest.mark.parametrize("text", ["", "0", "x/y", "1/2/3", "123456789/0", "-1/0"])
def test_what_is_not_an_lsn_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Lsn.parse(text)
