"""Ours and Debezium's own EventRouter, in one JVM beside us: thousands of cases, and no difference."""

from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from cdc_outbox.errors import StackError
from cdc_outbox.jvm import Jvm, RealRouter, fetch_plugin, find_jvm
from cdc_outbox.message import Message
from cdc_outbox.router import Change, ConnectRecord, ConnectType, ConnectValue, RoutingConfig
from cdc_outbox.router.routing import Component
from fuzz.router import Tally, run
from fuzz.router_cases import make_case
from fuzz.router_tables import CONVERTERS

CASES = 5_000


@pytest.fixture(scope="module")
def jvm() -> Jvm:
    return find_jvm(platformdirs.user_cache_path("cdc-outbox"))


@pytest.fixture(scope="module")
def real(jvm: Jvm) -> Iterator[RealRouter]:
    with RealRouter.open(jvm) as opened:
        yield opened


def test_ours_and_the_real_one_do_not_differ(real: RealRouter) -> None:
    tally = Tally()
    run(real, range(CASES), version=(3, 7), tally=tally)
    assert tally.differences == []
    # A comparison of errors with errors, or of one option, would say little.
    assert tally.yielding >= 0.6
    assert tally.missing() == []
    assert tally.refused.total() <= tally.records / 100


def test_a_difference_is_seen(real: RealRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_outbox.router.event_router.trim", str.strip)
    tally = Tally()
    run(real, range(1_000), version=(3, 7), tally=tally)
    assert tally.differences


def test_a_case_is_made_of_its_number_alone() -> None:
    assert [make_case(number) for number in range(100)] == [make_case(number) for number in range(100)]


def test_the_real_one_answers_in_turn_and_goes_on_after_an_error(real: RealRouter) -> None:
    case = make_case(0)
    broken = Component(case.config.router.java_class, {"route.topic.regex": "("})
    config = RoutingConfig(router=broken, key=case.config.key, value=case.config.value, header=case.config.header)
    [error] = real.route(config, case.records, connector="postgresql")
    assert "ConfigException" in repr(getattr(error, "exception", None))
    assert len(real.route(case.config, case.records, connector="postgresql")) == len(case.records)


def test_a_java_without_a_compiler_is_named(jvm: Jvm, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'error: no compiler module found' >&2\nexit 1\n")
    java.chmod(0o755)
    case = make_case(0)
    with (
        RealRouter.open(Jvm(str(java), jvm.home)) as opened,
        pytest.raises(StackError, match="no compiler module found") as caught,
    ):
        opened.route(case.config, case.records, connector="postgresql")
    assert "jdk" in caught.value.hint


def test_a_release_that_maven_does_not_have_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(StackError, match=r"postgres:3\.5\.2\.Final") as caught:
        fetch_plugin(tmp_path / "cache", "postgres", "3.5.2.Final")
    assert "release" in caught.value.hint
    assert list((tmp_path / "cache" / "plugins").iterdir()) == []


def test_json_expansion_is_left_to_the_real_one(real: RealRouter) -> None:
    case = make_case(0)
    config = RoutingConfig(
        router=Component(case.config.router.java_class, {"table.expand.json.payload": "true"}),
        key=CONVERTERS["String"],
        value=CONVERTERS["Json without schemas"],
        header=case.config.header,
    )
    columns = {"id": "1", "aggregatetype": "User", "aggregateid": "7", "payload": '{"a": [1], "b": null, "c": 1.50}'}
    row = {name: ConnectValue(ConnectType.STRING, text) for name, text in columns.items()}
    [message] = real.route(config, [ConnectRecord(topic="x", value=Change(row=row))], connector="postgresql")
    assert isinstance(message, Message)
    assert message.value == b'{"a":[1],"c":1.5}'
