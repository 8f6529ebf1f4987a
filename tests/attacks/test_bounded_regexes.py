"""What is looked for in texts of others takes a time that grows as they do."""

from collections.abc import Callable
from functools import partial

import pytest

from cdc_outbox.debezium.java_regex import matches, read_regex
from cdc_outbox.errors import ConfigError
from cdc_outbox.redaction import REFERENCE, SecretRedactor, hides, shows_password
from tests.support.time_limits import cpu_seconds

TEXTS = [
    "token",
    "token_",
    "${a",
    "${a:",
    "://",
    "://:",
    "password='",
    'secret="\\',
    "token=",
    "token ",
    "token':'",
    'token":"\\',
    "a:",
]
LOOKS: dict[str, Callable[[str], object]] = {
    "hides": lambda text: hides("x", text),
    "shows_password": shows_password,
    "references": REFERENCE.findall,
    "veil": lambda text: SecretRedactor().over(text),
    "remembered": lambda text: SecretRedactor().remember_options({"a.password": text}),
}


def least_seconds(look: Callable[[str], object], text: str) -> float:
    return min(cpu_seconds(partial(look, text)) for _ in range(3))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("look", LOOKS)
def test_a_text_of_eight_times_the_length_takes_no_more_than_some_eight_times_as_long(look: str, text: str) -> None:
    short, long = (least_seconds(LOOKS[look], text * pieces) for pieces in (500, 4_000))
    # Where each place looks at all that follows it is 64; below a millisecond nothing is measured.
    assert long < 24 * max(short, 0.001), (short, long)


SLOW = ["((a|aa)+)+$", "((a+))+$", "(((a+)+)+)+b", r"(\w|a|aa)*\d", "a*a*a*a*a*a*b", "(a{1,9}){1,9}b"]


@pytest.mark.parametrize("regex", SLOW)
def test_the_linter_compares_a_name_in_a_time_that_grows_as_it_does(regex: str) -> None:
    short, long = (least_seconds(partial(matches, regex), "a" * length + "-") for length in (50, 400))
    assert long < 24 * max(short, 0.001), (short, long)


@pytest.mark.parametrize("regex", SLOW)
def test_a_topic_is_compared_in_a_time_that_grows_as_it_does(regex: str) -> None:
    pattern = read_regex(regex)
    short, long = (
        least_seconds(lambda text: (pattern.fullmatch(text), pattern.search(text)), "a" * length + "-")
        for length in (50, 400)
    )
    assert long < 24 * max(short, 0.001), (short, long)


@pytest.mark.parametrize(("regex", "length"), [(".*", 1_000_000), ("(?:(?=a*b)a|a)*b", 2_000)])
def test_a_topic_that_takes_too_many_steps_is_refused_and_not_judged(regex: str, length: int) -> None:
    with pytest.raises(ConfigError, match="too many steps"):
        read_regex(regex).fullmatch("a" * length)
    assert matches(regex, "a" * length) is None


ENDLESS = {"deep": "(" * 500 + ")" * 500, "long": "(a|b)*" * 20_000, "multiplied": "((a{1000}){1000}){1000}"}


@pytest.mark.parametrize("regex", ENDLESS.values(), ids=ENDLESS)
def test_a_regular_expression_without_end_is_refused(regex: str) -> None:
    with pytest.raises(ConfigError):
        read_regex(regex)


def test_what_is_long_is_hidden_still() -> None:
    assert hides("x", f"my_password{'_a' * 30} = hunter2")
    assert "hunter2" not in SecretRedactor().over(f"my_password{'_a' * 30} = hunter2")
    assert REFERENCE.fullmatch("${file:/" + "a" * 900 + ":key}")
