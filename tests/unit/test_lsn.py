import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox import ConfigError
from cdc_outbox.databases.lsn import Lsn

positions = st.integers(0, 2**64 - 1).map(Lsn)


@given(positions)
def test_text_and_value_are_the_same_position(lsn: Lsn) -> None:
    assert Lsn.parse(str(lsn)) == lsn


def test_positions_compare_in_log_order_and_not_as_text() -> None:
    in_order = ["0/2", "0/10", "0/FFFFFFFF", "1/0", "9/0", "A/0", "10/0"]
    assert sorted(sorted(in_order), key=Lsn.parse) == in_order


def test_the_text_is_postgresqls() -> None:
    assert str(Lsn(24323008)) == "0/17323C0"
    assert Lsn.parse("16/B374D848").value == 0x16B374D848


@pytest.mark.parametrize("text", ["", "0", "x/y", "1/2/3", "123456789/0", "-1/0"])
def test_what_is_not_an_lsn_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Lsn.parse(text)
