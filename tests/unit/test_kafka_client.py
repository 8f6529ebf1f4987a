"""The Kafka client is imported in one place, when it is first used, and a missing one is refused in one sentence."""

import ast
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cdc_outbox.cli.brokers import broker_settings
from cdc_outbox.consumer import Consumer, SequenceMode, WireContract, offsets, start_offsets
from cdc_outbox.errors import OutboxError
from cdc_outbox.kafka import broker_errors, confluent
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.kafka.clients import make_consumer

PACKAGE = Path(__file__).parents[2] / "cdc_outbox"
LOG = logging.getLogger(__name__)
BROKERS = {"bootstrap.servers": "127.0.0.1:1"}


def _client_imports(path: Path) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names) if any(each.name.partition(".")[0] == "confluent_kafka" for each in names):
                yield node.lineno
            case ast.ImportFrom(module=str() as module) if module.partition(".")[0] == "confluent_kafka":
                yield node.lineno


def test_only_one_module_imports_the_client() -> None:
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if [*_client_imports(path)]}
    assert found == {"kafka/confluent.py"}


def test_each_of_its_names_is_the_clients() -> None:
    for name in confluent.__all__:
        assert getattr(confluent, name) is not None
    assert confluent.KafkaError is KafkaError
    with pytest.raises(AttributeError, match="no attribute 'Consumption'"):
        _ = confluent.Consumption


@pytest.fixture
def without_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the client, as far as it was imported already, too."""
    for name in confluent.__all__:
        monkeypatch.delitem(vars(confluent), name, raising=False) if name != "require" else None
    for name in [each for each in sys.modules if each.partition(".")[0] == "confluent_kafka"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)


def _connected_to_nothing() -> Any:
    pytest.fail("the database was asked before the Kafka client")


def _run_consumer() -> None:
    consumer = Consumer(
        name="shipping",
        contract=WireContract(aggregates={"order": SequenceMode.GAPLESS}),
        kafka="127.0.0.1:1",
        database=_connected_to_nothing,
    )
    consumer.on("OrderPlaced")(lambda _event, _connection: None)
    consumer.run()


@pytest.mark.usefixtures("without_client")
@pytest.mark.parametrize(
    "use",
    [
        confluent.require,
        lambda: confluent.Consumer({}),
        lambda: make_consumer(BROKERS, LOG),
        lambda: Topics(BROKERS, LOG),
        lambda: broker_settings("127.0.0.1:1", None, group="g"),
        _run_consumer,
    ],
)
def test_a_missing_client_is_refused_with_what_to_install(use: Callable[[], object]) -> None:
    with pytest.raises(OutboxError) as refused:
        use()
    assert str(refused.value) == "the connection to the brokers needs the package confluent-kafka"
    assert refused.value.hint == "Install it with `pip install 'cdc-outbox[kafka]'`."
    assert not refused.value.retryable


def test_errors_are_known_by_the_names_that_the_client_gives() -> None:
    known = {name: getattr(KafkaError, name) for name in dir(KafkaError) if isinstance(getattr(KafkaError, name), int)}
    assert [name for name, code in known.items() if KafkaError(code).name() != name] == []
    ours = {
        *broker_errors.WAITED_OUT,
        *broker_errors.PASSING_ERRORS,
        *broker_errors._REFUSALS,
        *start_offsets._WAITED_OUT,
        *offsets._NOT_A_MEMBER,
    }
    assert ours <= known.keys()
