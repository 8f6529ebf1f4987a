"""What docker-compose.yml promises about its health checks, and what Connect keeps to itself."""

import signal
import time

import requests

from tests.compose.stack import ComposeStack, run
from tests.faults.report import tell
from tests.support.patience import patience
from tests.support.rig import eventually

_NOTICED_SHARE, _COST_PERCENT, _IDLE_SECONDS, _CHECKS = 0.5, 2.0, 60.0, 20


def check_failures_are_noticed(stack: ComposeStack) -> None:
    """Stop the process of each service that has a health check: it becomes unhealthy, and healthy afterwards."""
    services = _checked(stack)
    began_at = time.monotonic()
    for service in services:
        stack.signal(service, signal.SIGSTOP)
    noticed: dict[str, float] = {}

    def is_noticed() -> bool:
        for service in set(services) - noticed.keys():
            if stack.health(service) == "unhealthy":
                noticed[service] = time.monotonic() - began_at
        return len(noticed) == len(services)

    eventually(is_noticed, lambda: f"unhealthy services, beside {', '.join(noticed)}")
    for service in services:
        stack.signal(service, signal.SIGCONT)
    tell(f"          stopped processes are unhealthy after {_table(noticed, '.0f')} s")
    assert max(noticed.values()) <= _NOTICED_SHARE * patience()
    stack.wait_for("healthy", *services)


def check_cost(stack: ComposeStack) -> None:
    """Compare what idle services use with what their health checks use of it."""
    services = _checked(stack)
    before = {service: stack.cpu_seconds(service) for service in services}
    time.sleep(_IDLE_SECONDS)
    idle = {service: 100 * (stack.cpu_seconds(service) - before[service]) / _IDLE_SECONDS for service in services}
    costs = {service: _cost_of_checks(stack, service, idle[service]) for service in services}
    tell(f"          mean of `docker stats` over {_IDLE_SECONDS:.0f} s: {_table(idle, '.1f')} % of a core")
    tell(f"          of it, health checks: {_table(costs, '.2f')} %")
    assert max(costs.values()) < _COST_PERCENT


def _cost_of_checks(stack: ComposeStack, service: str, idle_percent: float) -> float:
    """Return the percentage of a core that a service's health checks use, its answers to them included."""
    state = stack.state(service)
    check = state["Config"]["Healthcheck"]
    kind, *command = check["Test"]
    command = command if kind == "CMD" else ["sh", "-c", *command]
    began_at, before = time.monotonic(), stack.cpu_seconds(service)
    for _ in range(_CHECKS):
        run("docker", "exec", state["Id"], *command)
    used = stack.cpu_seconds(service) - before - idle_percent / 100 * (time.monotonic() - began_at)
    return float(100 * used / _CHECKS / (check["Interval"] / 1e9))


def _checked(stack: ComposeStack) -> list[str]:
    return [service for service, state in stack.states().items() if "Health" in state["State"]]


def _table(figures: dict[str, float], format_: str) -> str:
    return ", ".join(f"{service} {figure:{format_}}" for service, figure in sorted(figures.items()))


def check_nothing_is_given_away(stack: ComposeStack) -> None:
    """Ask Connect for its environment and its files, without and with the login."""
    url, login = _connect(stack)
    url += "/connector-plugins/PostgresConnector/config/validate"
    references = "!${env:CONNECT_PASSWORD}!${env:KAFKA_HEAP_OPTS}!${file:/etc/passwd:root}"
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "name": "x",
        "topic.prefix": "x",
        "database.hostname": f"no{references}",
    }
    assert requests.put(url, json=config, timeout=patience()).status_code == 401
    answer = requests.put(url, json=config, auth=login, timeout=patience()).text
    assert "no!" in answer or "error_code" in answer, answer
    for private in (f"!{login[1]}", "-Xmx", "x:0:0"):
        assert private not in answer, answer
    tell(f"          Connect answers {answer[:60]}… and gives nothing away")


def worker_of_the_task(stack: ComposeStack) -> str:
    """Return the service that runs the connector's task."""
    url, login = _connect(stack)
    [task] = requests.get(f"{url}/connectors/orders/status", auth=login, timeout=patience()).json()["tasks"]
    return str(task["worker_id"]).partition(":")[0]


def _connect(stack: ComposeStack) -> tuple[str, tuple[str, str]]:
    password = stack.services["connect"]["environment"]["CONNECT_PASSWORD"]
    return f"http://localhost:{stack.port('connect')}", ("cdc-outbox", password)
