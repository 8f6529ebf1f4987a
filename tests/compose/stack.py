"""docker-compose.yml in an engine: its services, and what happens to them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.faults.report import tell
from tests.support.patience import SECONDS, patience
from tests.support.rig import eventually

ROOT = Path(__file__).parents[2]
_OTHERS = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", ".env", "tests", "docs", "benchmarks")


def run(*command: str, cwd: Path = ROOT, seconds: float = SECONDS, **options: Any) -> str:
    """Return what a command prints."""
    options = {"stderr": subprocess.PIPE, "stdin": None if "input" in options else subprocess.DEVNULL} | options
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, text=True, timeout=patience(seconds), check=False, **options
    )
    assert done.returncode == 0, f"{' '.join(command)} exited with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def step(name: str) -> Iterator[None]:
    """Print how long a step took."""
    began_at = time.monotonic()
    yield
    tell(f"{time.monotonic() - began_at:6.1f} s  {name}")


def copy_of_checkout(parent: Path) -> Path:
    """Return a checkout without anybody's `.env`, which every user may read, as mounts need."""
    copy = parent / "cdc-outbox"
    shutil.copytree(ROOT, copy, ignore=_OTHERS)
    run("chmod", "--recursive", "a+rX", str(parent))
    return copy


class ComposeStack:
    """The services of a checkout's compose files, of which ``up`` starts the named ones."""

    def __init__(self, checkout: Path, *services: str, profiles: Sequence[str] = (), addition: str = "") -> None:
        self.checkout, self._services = checkout, services
        self._guests: list[str] = []
        self._command = [
            "docker",
            "compose",
            *(["--file=docker-compose.yml", f"--file={addition}"] if addition else []),
        ]
        self._profile = [f"--profile={profile}" for profile in profiles]
        config = json.loads(self.compose("--profile=*", "config", "--format=json"))
        self.services: Mapping[str, dict[str, Any]] = config["services"]

    def compose(self, *arguments: str, **options: Any) -> str:
        return run(*self._command, *arguments, cwd=self.checkout, **options)

    def up(self) -> None:
        # A first start also makes images.
        up = ("--progress=quiet", *self._profile, "up", "--build", "--detach", "--wait")
        self.compose(*up, *self._services, seconds=5 * SECONDS)

    def start(self, service: str) -> None:
        """Start a service that was killed, and none that has done its work."""
        self.compose("--progress=quiet", "--profile=*", "up", "--detach", "--no-deps", "--wait", service)

    def down(self, *options: str) -> None:
        if self._guests:  # they have addresses that services had
            run("docker", "rm", "--force", "--volumes", *self._guests)
            self._guests.clear()
        self.compose("--progress=quiet", "--profile=*", "down", *options)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the services, and delete them and their data at the end of the block; nothing of them is left."""
        with step(f"up {' '.join([*self._profile, *self._services])}: healthy"):
            self.up()
        try:
            yield
        except BaseException:
            tell(self.compose("--profile=*", "ps", "--all"))
            tell(self.compose("--profile=*", "logs", "--tail=15"))
            raise
        finally:
            with step("down --volumes"):
                self.down("--volumes", "--timeout=5")  # the data is not needed any more
        assert not run("docker", "volume", "ls", "--quiet"), "volumes are left"

    def port(self, service: str) -> int:
        """Return the port of this machine at which a service is published."""
        return int(self.services[service]["ports"][0]["published"])

    def password(self, user: str) -> str:
        return str(self.services["postgres"]["environment"][f"{user.upper()}_PASSWORD"])

    def dsn(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}:{self.password(user)}@localhost:{self.port('postgres')}/{database}"

    def states(self, *services: str) -> dict[str, dict[str, Any]]:
        """Return containers that exist, by service, as the engine describes them."""
        containers = self.compose("--profile=*", "ps", "--all", "--quiet", *services).split()
        found = json.loads(run("docker", "inspect", *containers))
        return {state["Config"]["Labels"]["com.docker.compose.service"]: state for state in found}

    def state(self, service: str) -> dict[str, Any]:
        return self.states(service)[service]

    def health(self, service: str) -> str:
        return str(self.state(service)["State"]["Health"]["Status"])

    def wait_for(self, health: str, *services: str) -> None:
        for service in services:
            eventually(lambda: self.health(service) == health, f"{service} to be {health}", seconds=3 * SECONDS)  # noqa: B023

    def signal(self, service: str, number: int) -> None:
        """Send a signal to a service's process, behind the engine's back."""
        os.kill(self.state(service)["State"]["Pid"], number)

    def crash(self, service: str) -> None:
        """End a service's process; its restart policy brings it back."""
        before = self.state(service)["RestartCount"]
        self.signal(service, signal.SIGKILL)
        eventually(lambda: self.state(service)["RestartCount"] > before, f"a restart of {service}")
        self.wait_for("healthy", service)

    def kill(self, service: str) -> None:
        """Have the engine kill a container: it counts as stopped by hand, so only `up` brings it back."""
        run("docker", "kill", self.state(service)["Id"])

    def address(self, service: str) -> str:
        [network] = self.state(service)["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    @contextmanager
    def cut(self, one: str, other: str) -> Iterator[None]:
        """Drop every packet between two services, in both directions and without a word."""
        pids = {service: self.state(service)["State"]["Pid"] for service in (one, other)}
        addresses = {one: self.address(other), other: self.address(one)}

        def change(action: str) -> None:
            for service, pid in pids.items():
                rule = (action, "INPUT", "--source", addresses[service], "--jump", "DROP")
                run("nsenter", f"--net=/proc/{pid}/ns/net", "iptables", *rule)

        change("--insert")
        try:
            yield
        finally:
            change("--delete")

    @contextmanager
    def isolated(self, service: str, *, moves: bool = False) -> Iterator[None]:
        """Take a service off its network; if it ``moves``, it comes back under another address."""
        state = self.state(service)
        [(network, before)] = state["NetworkSettings"]["Networks"].items()
        # Without the alias nobody would find the service by its name.
        connect = ("docker", "network", "connect", f"--alias={service}", network, state["Id"])
        disconnect = ("docker", "network", "disconnect", network, state["Id"])
        run(*disconnect)
        try:
            yield
        finally:
            run(*connect)
        while moves and self.address(service) == before["IPAddress"]:
            run(*disconnect)
            guest = (
                "run",
                "--detach",
                f"--network={network}",
                "--entrypoint=sleep",
                state["Config"]["Image"],
                "infinity",
            )
            self._guests.append(run("docker", *guest).strip())
            run(*connect)

    def cpu_seconds(self, service: str) -> float:
        """Return what a container's processes have used, from which `docker stats` computes its percentages."""
        engine = _Engine("engine", timeout=patience())
        engine.request("GET", f"/containers/{self.state(service)['Id']}/stats?stream=false&one-shot=true")
        with engine.getresponse() as answer:
            stats = json.load(answer)
        engine.close()
        return float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9


class _Engine(HTTPConnection):
    """The engine's API, on its socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.environ["DOCKER_HOST"].removeprefix("unix://"))
