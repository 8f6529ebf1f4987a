"""What is looked for in texts of others takes a time that grows as they do."""

import time
from collections.abc import Callable

import pytest

from cdc_outbox.secret import REFERENCE, Veil, hides, shows_password

TEXTS = ["token", "token_", "${a", "${a:", "://", "://:", "password='", 'secret="\\', "token=", "token ", "a:"]
LOOKS: dict[str, Callable[[str], object]] = {
    "hides": lambda text: hides("x", text),
    "shows_password": shows_password,
    "references": REFERENCE.findall,
    "veil": lambda text: Veil().over(text),
    "remembered": lambda text: Veil().remember_options({"a.password": text}),
}


def least_seconds(look: Callable[[str], object], text: str) -> float:
    def once() -> float:
        begun = time.process_time()
        look(text)
        return time.process_time() - begun

    return min(once() for _ in range(3))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("look", LOOKS)
def test_a_text_of_eight_times_the_length_takes_no_more_than_some_eight_times_as_long(look: str, text: str) -> None:
    short, long = (least_seconds(LOOKS[look], text * pieces) for pieces in (500, 4_000))
    # Where each place looks at all that follows it is 64; below a millisecond nothing is measured.
    assert long < 24 * max(short, 0.001), (short, long)


def test_what_is_long_is_hidden_still() -> None:
    assert hides("x", f"my_password{'_a' * 30} = hunter2")
    assert "hunter2" not in Veil().over(f"my_password{'_a' * 30} = hunter2")
    assert REFERENCE.fullmatch("${file:/" + "a" * 900 + ":key}")
