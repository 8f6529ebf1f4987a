"""Public names are listed by hand, sorted, and cost nothing that is not used."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

import cdc_outbox
from cdc_outbox import consumer, errors

FACES = [
    "cdc_outbox",
    "cdc_outbox.contrib.alembic",
    "cdc_outbox.consumer",
    "cdc_outbox.contrib.django",
    "cdc_outbox.debezium.event_router.jvm",
    "cdc_outbox.monitoring",
    "cdc_outbox.debezium.event_router",
    "cdc_outbox.relay",
    "cdc_outbox.testing",
    "cdc_outbox.writer",
]


@pytest.mark.parametrize("name", FACES)
def test_exported_names_exist_and_are_sorted(name: str) -> None:
    module = importlib.import_module(name)
    exported: list[str] = module.__all__
    assert exported == sorted(exported, key=lambda name: (not name.isupper(), name))  # constants first, as ruff has it
    assert len(set(exported)) == len(exported)
    for export in exported:
        assert getattr(module, export) is not None


def descendants(kind: type[Exception]) -> set[str]:
    return {kind.__name__}.union(*(descendants(each) for each in kind.__subclasses__()))


def test_what_a_service_can_catch_is_exported_where_it_is_raised() -> None:
    written = descendants(errors.OutboxError) | descendants(errors.DatabaseError) | {"ConfigError", "EventError"}
    operators = {"UnprovenDeliveryError"}  # raised by commands alone
    assert written - operators <= set(cdc_outbox.__all__)
    consumed = descendants(errors.ConsumerError) | descendants(errors.DatabaseError) | descendants(errors.BrokerError)
    assert consumed | {"InboxError", "ConfigError", "NotInTransactionError"} <= set(consumer.__all__)


PUBLIC = [
    "cdc_outbox",
    "cdc_outbox.consumer",
    "cdc_outbox.contrib.alembic",
    "cdc_outbox.contrib.django",
    "cdc_outbox.monitoring",
    "cdc_outbox.relay",
    "cdc_outbox.testing",
]


def exported(package: str) -> list[object]:
    module = importlib.import_module(package)
    return [getattr(module, name) for name in module.__all__]


def documented_errors(package: str) -> set[str]:
    """Return the errors of ours that the docstrings of a package's names promise below ``Raises:``."""
    own = exported(package)
    others = [each for other in PUBLIC if other != package for each in exported(other)]
    documents: list[object] = [each for each in own if inspect.isroutine(each)]
    for exported_class in filter(inspect.isclass, own):
        for kind in exported_class.__mro__:
            if kind in own or kind not in others:  # of what is inherited from another package's, that one promises
                documents += [kind, *(member for name, member in vars(kind).items() if not name.startswith("_"))]
    sections = [(inspect.getdoc(document) or "").partition("Raises:")[2] for document in documents]
    ours = descendants(errors.CdcOutboxError)
    return {name for section in sections for name in re.findall(r"\b\w+Error\b", section) if name in ours}


@pytest.mark.parametrize("package", PUBLIC)
def test_every_error_that_a_docstring_promises_is_exported_by_its_package(package: str) -> None:
    assert documented_errors(package) <= set(importlib.import_module(package).__all__)


def test_the_errors_of_docstrings_are_found() -> None:
    assert {"NotInTransactionError", "DuplicateEventError", "EventError"} <= documented_errors("cdc_outbox")
    assert {"BrokerUnavailableError", "SequenceGapError"} <= documented_errors("cdc_outbox.consumer")
    assert "StackError" in documented_errors("cdc_outbox.testing")


@pytest.mark.parametrize(
    ("statement", "foreign"),
    [
        ("import cdc_outbox", {"psycopg", "confluent_kafka", "requests", "jsonschema", "yaml", "click"}),
        (
            "import cdc_outbox",
            {
                "MySQLdb",
                "alembic",
                "asyncpg",
                "cloudevents",
                "django",
                "opentelemetry",
                "psycopg2",
                "pymysql",
                "sqlalchemy",
                "sqlite3",
            },
        ),
        ("import cdc_outbox.contrib.django", {"psycopg", "confluent_kafka", "requests", "yaml", "click", "sqlalchemy"}),
        ("import cdc_outbox.consumer", {"psycopg", "confluent_kafka", "requests", "jsonschema", "yaml", "click"}),
        ("import cdc_outbox.relay", {"psycopg", "confluent_kafka", "requests", "click", "http.server", "sqlalchemy"}),
        ("import cdc_outbox.consumer", {"http.server", "opentelemetry", "prometheus_client"}),
        (
            "import cdc_outbox.monitoring",
            {"confluent_kafka", "opentelemetry", "prometheus_client", "psycopg", "requests", "yaml", "click"},
        ),
        ("import cdc_outbox.testing", {"confluent_kafka", "opentelemetry", "prometheus_client"}),
        ("import cdc_outbox.testing", {"pymysql", "requests", "jsonschema", "yaml", "click"}),
        ("import cdc_outbox.pytest_plugin", {"psycopg", "confluent_kafka", "psutil", "requests"}),
        ("import cdc_outbox.cli", {"psycopg", "confluent_kafka", "requests", "jsonschema", "yaml"}),
    ],
)
def test_importing_pulls_in_nothing_that_is_not_needed(statement: str, foreign: set[str]) -> None:
    code = f"{statement}; import sys; print(*sorted(set(sys.modules) & {foreign!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_importing_says_nothing_and_sets_up_no_logging() -> None:
    code = "import cdc_outbox, logging; print(logging.getLogger('cdc_outbox').handlers, logging.root.handlers)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[] []", "")
