"""Run docker-compose.yml, harm its services one by one, and count after each step: infra/compose."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.compose.checks import check_cost, check_failures_are_noticed, check_nothing_is_given_away, worker_of_the_task
from tests.compose.readme import ReadmePipeline
from tests.compose.services import Services
from tests.compose.stack import ComposeStack, copy_of_checkout, step
from tests.faults.report import tell

_DEMO = ("debezium", "demo")
_WITH_RELAY = ("relay", "orders", "shipping")


def prove_readme(checkout: Path) -> None:
    """The README's pipeline; PostgreSQL dies, and the broker comes back under another address."""
    stack = ComposeStack(checkout)
    with stack.running():
        pipeline = ReadmePipeline(stack)
        with pipeline.on_this_machine():
            pipeline.place(100)
            with step("all are shipped"):
                pipeline.count()
            with step("postgres dies, its restart policy starts it"):
                stack.crash("postgres")
                pipeline.place(100)
            with step("all are shipped"):
                pipeline.count()
            with step("kafka gets another address"), stack.isolated("kafka", moves=True):
                pipeline.place(100)
            with step("all are shipped"):
                pipeline.count()


def prove_containers(checkout: Path) -> None:
    """The README's pipeline without a program of this machine, and the promises of the three servers."""
    stack = ComposeStack(checkout)
    with stack.running():
        pipeline = ReadmePipeline(stack)
        with pipeline.in_containers():
            pipeline.place(100)
            with step("all are shipped"):
                pipeline.count()
        check_nothing_is_given_away(stack)
        check_cost(stack)
        check_failures_are_noticed(stack)


def prove_demo(checkout: Path) -> None:
    """Debezium under load: each service is harmed."""
    stack = ComposeStack(checkout, profiles=_DEMO)
    with stack.running():
        services = Services(stack)
        services.count()
        services.restart()
        pairs = (("postgres", "connect"), ("kafka", "connect"))
        services.harm("postgres", "kafka", "connect", "shipping", pairs=pairs)


def prove_relay(checkout: Path) -> None:
    """The relay under load: each service is harmed."""
    stack = ComposeStack(checkout, *_WITH_RELAY)
    with stack.running():
        services = Services(stack)
        services.count()
        services.restart()
        services.harm("postgres", "kafka", "relay", pairs=(("relay", "kafka"), ("relay", "postgres")))
        check_cost(stack)
        check_failures_are_noticed(stack)


def prove_cluster(checkout: Path) -> None:
    """Three brokers and two workers under load: one of each dies."""
    stack = ComposeStack(checkout, profiles=_DEMO, addition="docker-compose.cluster.yml")
    with stack.running():
        services = Services(stack)
        services.count()
        services.lose("kafka-2")
        services.lose(worker_of_the_task(stack))


_PARTS = {
    "readme": prove_readme,
    "containers": prove_containers,
    "demo": prove_demo,
    "relay": prove_relay,
    "cluster": prove_cluster,
}


def main() -> int:
    """Run the proof and return its exit code."""
    parser = argparse.ArgumentParser(prog="infra/compose", description="Run docker-compose.yml, harm it, and count.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(_PARTS)}; by default all")
    parts = parser.parse_args().parts or list(_PARTS)
    if unknown := set(parts) - _PARTS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with TemporaryDirectory() as folder:
        checkout = copy_of_checkout(Path(folder))
        for part in parts:
            prove = _PARTS[part]
            tell(f"{part}: {prove.__doc__}")
            prove(checkout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
