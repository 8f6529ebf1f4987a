"""Our EventRouter against Debezium's own in every release that Maven has: thousands of cases, and no difference."""

import platformdirs
import pytest

from cdc_outbox.debezium.event_router.jvm import RealRouter, fetch_plugin, find_jvm
from fuzz.router import VERSIONS, Tally, run
from fuzz.router_cases import make_case

CASES = 5_000


@pytest.mark.parametrize("version", VERSIONS)
def test_ours_and_the_real_one_do_not_differ(version: str) -> None:
    cache = platformdirs.user_cache_path("cdc-outbox")
    major, minor = map(int, version.split(".")[:2])
    tally = Tally()
    with RealRouter.open(find_jvm(cache), fetch_plugin(cache, "postgres", version)) as real:
        run(real, range(CASES), version=(major, minor), tally=tally)
    assert tally.differences == []
    # A comparison of errors with errors, or of one option, would say little.
    assert tally.yielding >= 0.6
    assert tally.missing() == []
    assert tally.refused.total() <= tally.records / 100


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_outbox.debezium.event_router.router.trim", str.strip)
    tally = Tally()
    with RealRouter.open(find_jvm(platformdirs.user_cache_path("cdc-outbox"))) as real:
        run(real, range(1_000), version=(3, 7), tally=tally)
    assert tally.differences


def test_a_case_is_made_of_its_number_alone() -> None:
    assert [make_case(number) for number in range(100)] == [make_case(number) for number in range(100)]
