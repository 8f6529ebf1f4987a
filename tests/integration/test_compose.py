"""docker-compose.yml without a container engine: everything about it that can be known without one."""

import re
from pathlib import Path

import pytest

from cdc_outbox.debezium.event_router.jvm import POM
from cdc_outbox.testing import Stack
from cdc_outbox.testing.broker import broker_environment, make_broker
from cdc_outbox.testing.settings import settings_file
from cdc_outbox.testing.worker import make_login, make_worker, worker_environment
from tests.support.compose_file import ROOT, SERVICES, properties

SETTINGS = {"postgres": "postgresql.conf", "kafka": "kafka.properties", "connect": "connect.properties"}


def pinned(name: str) -> str:
    found = re.search(rf"<{name}\.version>(.*)</{name}\.version>", POM.read_text())
    assert found
    return found[1]


def command(service: str) -> str:
    return " ".join(SERVICES[service]["command"])


@pytest.mark.parametrize("service", SETTINGS)
def test_each_service_mounts_the_file_that_the_local_stack_reads(service: str) -> None:
    name = SETTINGS[service]
    [(source, target, mode)] = [mount.split(":") for mount in SERVICES[service]["volumes"] if f"/{name}:" in mount]
    assert (ROOT / source).resolve() == settings_file(name).resolve()
    assert target in command(service)
    assert mode == "ro"


def test_connect_waits_for_what_it_needs() -> None:
    waits = {name: wait["condition"] for name, wait in SERVICES["connect"]["depends_on"].items()}
    assert waits == {"kafka": "service_healthy", "postgres": "service_healthy"}


@pytest.mark.parametrize(
    ("service", "local"),
    [("kafka", broker_environment(Path("/x"), 1, 2)), ("connect", worker_environment(1, "x:2"))],
)
def test_each_variable_of_the_settings_is_set_by_compose_and_by_the_local_stack(
    service: str, local: dict[str, str]
) -> None:
    used = set(re.findall(r"=.*?\$\{env:(\w+)\}", settings_file(SETTINGS[service]).read_text()))
    assert used == local.keys()
    assert used <= SERVICES[service]["environment"].keys()


def test_connectors_find_the_same_variables_in_both() -> None:
    used = set(re.findall(r"\$\{env:(\w+)\}", (ROOT / "connectors" / "orders.yaml").read_text()))
    assert used - {"…"} <= set(SERVICES["connect"]["environment"])


def test_versions_are_pinned_once() -> None:
    dockerfile = (ROOT / "infra" / "connect" / "Dockerfile").read_text()
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{pinned('kafka')}"
    assert re.findall(r"^FROM (apache/kafka\S*)", dockerfile, re.MULTILINE) == [SERVICES["kafka"]["image"]]


def test_the_database_runs_the_major_version_of_the_local_stack(outbox_stack: Stack) -> None:
    import psycopg

    with psycopg.connect(outbox_stack.postgres.dsn()) as connection:
        assert SERVICES["postgres"]["image"].startswith(f"postgres:{connection.info.server_version // 10_000}.")


def test_broker_and_worker_come_up_with_what_compose_tells_them(outbox_stack: Stack, server_folder: Path) -> None:
    """The containers' own environment and files, with their host names and ports turned into free ones of ours."""
    ports = {port: outbox_stack.folder.reserve_port() for port in ("9092", "9093", "19092", "8083")}

    def environment_of(service: str, **changed: str) -> dict[str, str]:
        found = dict(SERVICES[service]["environment"])
        for port, ours in ports.items():
            place = rf"(kafka|localhost|0\.0\.0\.0):{port}\b"
            found = {name: re.sub(place, f"127.0.0.1:{ours}", value) for name, value in found.items()}
        return found | changed

    kafka, environment = server_folder / "kafka", environment_of("kafka", BROKER_FOLDER=str(server_folder / "data"))
    # Twice, as the container formats at each start: it must not mind what is formatted already.
    make_broker(kafka, ports["9092"], environment, outbox_stack.jvm)
    broker = make_broker(kafka, ports["9092"], environment, outbox_stack.jvm)
    assert "--ignore-formatted" in command("kafka")
    # The folder is the container's, and the login is asked for as the local stack does it.
    settings = properties(SERVICES["connect"]["environment"]["CONNECT_ACCESS"])
    del settings["config.providers.file.param.allowed.paths"]
    worker = make_worker(
        server_folder / "connect",
        ports["8083"],
        environment_of("connect"),
        outbox_stack.jvm,
        login=make_login(),
        settings=settings,
    )
    try:
        broker.start()
        assert broker.ends("nothing") == {}
        worker.start()
        assert worker.answers()
    finally:
        worker.stop(seconds=2)
        broker.stop(seconds=2)
