"""A service's consumer as a process whose handlers stop or kill it: ``python -m tests.support.service_process``."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from cdc_outbox.consumer import Consumer, EffectsDatabase, Limits, RecordedEvent, WireContract
from cdc_outbox.spec import parse_spec
from tests.support.pipeline import FedPipeline
from tests.support.rig import Connection
from tests.support.service import QUICKLY_MISSED, Service, apply_effect


@contextmanager
def running_process(service: Service, **options: Any) -> "Iterator[subprocess.Popen[bytes]]":
    """Run the service's consumer in a process, and kill it at the end unless it has ended.

    Args:
        service: One whose pipeline only the test sends events to.
        options: ``limits``, ``kafka`` and ``pipeline`` for its consumer.
    """
    settings = {
        "name": service.name,
        "spec": service.pipeline.name,
        "dsn": service.dsn,
        "servers": service.pipeline.stack.broker.bootstrap_servers,
        **options,
    }
    process = subprocess.Popen([sys.executable, "-m", "tests.support.service_process", json.dumps(settings)])
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def main(settings: dict[str, Any]) -> None:
    """Consume until a signal comes."""
    contract: WireContract = parse_spec(FedPipeline.text(settings["spec"]), name="spec.yaml").contract
    consumer = Consumer(
        name=settings["name"],
        contract=contract,
        kafka={"bootstrap.servers": settings["servers"], **QUICKLY_MISSED, **settings.get("kafka", {})},
        database=EffectsDatabase(
            connect=lambda: psycopg.connect(settings["dsn"]), pipeline=settings.get("pipeline", False)
        ),
        limits=Limits(**settings.get("limits", {})),
    )
    consumer.on("OrderPlaced")(apply_effect)

    @consumer.on("Pauses")
    def pause(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        os.kill(os.getpid(), signal.SIGSTOP)

    @consumer.on("Kills")
    def kill(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        os._exit(9)

    signal.signal(signal.SIGTERM, lambda _number, _frame: consumer.stop())
    consumer.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
