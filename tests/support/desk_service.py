"""A desk's consumer as a process whose handlers stop or kill it: ``python -m tests.support.desk_service``."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from cdc_outbox.consumer import Consumer, Event, Limits, WireContract
from cdc_outbox.spec import parse_spec
from tests.support.desk import Desk, Feed
from tests.support.rig import QUICK, Connection, apply_effect


@contextmanager
def serving(desk: Desk, **options: Any) -> "Iterator[subprocess.Popen[bytes]]":
    """Run the service in a process, and kill it at the end unless it has ended.

    Args:
        options: ``limits``, ``kafka`` and ``pipeline`` for its consumer.
    """
    settings = {
        "name": desk.name,
        "feed": desk.pipeline.name,
        "dsn": desk.pipeline.dsn,
        "servers": desk.pipeline.stack.broker.bootstrap_servers,
        **options,
    }
    process = subprocess.Popen([sys.executable, "-m", "tests.support.desk_service", json.dumps(settings)])
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def main(settings: dict[str, Any]) -> None:
    """Consume until a signal comes."""
    contract: WireContract = parse_spec(Feed.text(settings["feed"]), name="feed.yaml").contract
    consumer = Consumer(
        name=settings["name"],
        contract=contract,
        bootstrap_servers=settings["servers"],
        connect=lambda: psycopg.connect(settings["dsn"]),
        kafka_settings=QUICK | settings.get("kafka", {}),
        limits=Limits(**settings.get("limits", {})),
        pipeline=settings.get("pipeline", False),
    )
    consumer.on("OrderPlaced")(apply_effect)

    @consumer.on("Pauses")
    def pause(event: Event, connection: Connection) -> None:
        apply_effect(event, connection)
        os.kill(os.getpid(), signal.SIGSTOP)

    @consumer.on("Kills")
    def kill(event: Event, connection: Connection) -> None:
        apply_effect(event, connection)
        os._exit(9)

    signal.signal(signal.SIGTERM, lambda _number, _frame: consumer.stop())
    consumer.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
