"""Our consumer, with each kind of handler."""

from collections.abc import Sequence
from typing import Any, ClassVar

import psycopg

from benchmarks.consumers.work import EVENT_TYPE, Row, Work, contract_of, upsert, upsert_all
from cdc_outbox.consumer import Consumer, EffectsDatabase, RecordedEvent


class Ours:
    """A handler for each event."""

    pipeline: ClassVar[bool] = False

    def __init__(self, work: Work) -> None:
        self.consumer: Any = Consumer(
            name=work.group,
            contract=contract_of(work.topic),
            kafka=work.bootstrap_servers,
            database=EffectsDatabase(connect=lambda: psycopg.connect(work.dsn), pipeline=self.pipeline),
        )
        self._register()
        self.run, self.stop = self.consumer.run, self.consumer.stop

    def _register(self) -> None:
        @self.consumer.on(EVENT_TYPE)  # type: ignore[untyped-decorator]
        def place(event: RecordedEvent, connection: psycopg.Connection[Any]) -> None:
            upsert(connection, _row(event))


class OursPipelined(Ours):
    """A handler for each event, whose statements' answers are not waited for."""

    pipeline = True


class OursOnBatch(Ours):
    """A handler for many events."""

    def _register(self) -> None:
        @self.consumer.on_batch(EVENT_TYPE)  # type: ignore[untyped-decorator]
        def place(events: Sequence[RecordedEvent], connection: psycopg.Connection[Any]) -> None:
            upsert_all(connection, [_row(event) for event in events])


def _row(event: RecordedEvent) -> Row:
    return event.id, event.aggregate_id, event.payload["customer"]
