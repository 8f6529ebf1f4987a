"""Random records in a consumer's topics: none of them stops the consumer, `verify` or `replay`.

Between them stand events of aggregates of their own, whose effects have to happen once and in order. With the bound of
the park raised everything is read to its end; at a low bound the partition with the random records is paused, and no
other one. The suite sends some hundred records; `infra/fuzz records` sends a hundred thousand. It exits 1 if one of
them ended a consumer, `verify` or `replay`, or if an event had no effect, or two.
"""

import argparse
import json
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from cdc_outbox import Event, Outbox, RecordedEvent
from cdc_outbox.consumer import Consumer
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.formats.attributes import BINARY_NAMES
from cdc_outbox.testing import Stack, StackConfig
from tests.support.commands import run_command
from tests.support.events import make_event
from tests.support.pipeline import Pipeline
from tests.support.raw_producer import RawProducer
from tests.support.rig import eventually
from tests.support.service import PATIENT, Service
from tests.support.timings import QUICK_LIMITS

PARTITIONS = 3
_GOOD_SHARE = 10
"""One record in so many is an event of an aggregate that no random record is of."""
_FLUSHED = 1_000
_ROOM, _ROOM_BYTES = 1_000_000, 10**12
"""More events and bytes than a run parks."""

_MAX_BYTES = 900_000
"""Kafka takes no more than 1,048,576 bytes."""

Header = tuple[bytes, bytes | None]

_NUMBERS = (
    *("0", "-1", "+1", "01", " 1", "1 ", "1.0", "1e3", "0x10", "1_000", "NaN", "Infinity", "", "\u0967", "\u00b2"),
    *("1", "2", "3", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "9" * 5_000),
)
_TEXTS = (
    *("", "\0", "a\0b", "\x1b[2J", "\r\n::error::x", "\u202e", "\U0001f4e6", "%s {} $1 :x '\"; drop", "../.."),
    *("x" * 250, "x" * 1_001, "x" * 40_000, "null", "true", "order", "metric", "OrderPlaced", "orders.1", "orders.0"),
)
_BYTES = (b"", b"\0", b"\xff", b"\xff\xfe\x00", b"\xed\xa0\x80", b"\xc0\xaf", b"\xef\xbb\xbf", b"\x00\x00\x00\x00\x01")
_DEPTHS = (1, 99, 100, 101, 500, 1_000, 10_000, 100_000)
_VALUES = (
    *("null", "0", "-0", "1e999", "-1e-999", "NaN", "-Infinity", "9" * 5_000, "01", "{", "[", '"', "//", "\ufeff{}"),
    *('{"a":1,"a":2}', '{"":{"":{}}}', '"\\ud800"', '"\\u0000"', '{"\\u0000":1}', '{"\\udc00":1}', '"\\x"', "[1,]"),
    *('{"specversion":"1.0"}', '{"specversion":"9","id":1,"type":[],"source":{},"data":null}', '{"payload":"{"}'),
    *('{"schema":{"type":"string"},"payload":"x"}', '{"schema":null,"payload":{"op":"c","after":null}}'),
)


class Records:
    """Random records: whole ones, and those of which some parts were replaced, repeated or left out.

    Args:
        contract: What most of them begin with; the topic's aggregate type is ``order``.
    """

    def __init__(self, random: Random, contract: WireContract) -> None:
        self._random, self._contract = random, contract
        names = {"id", *contract.headers.placed().values(), *BINARY_NAMES.placed().values(), *contract.extra_headers}
        more = ("content-type", "ce_specversion", "ce_id", "__debezium.context", "ID", "", "a\0b", "x" * 10_000)
        self._names = (*(name.encode() for name in sorted(names | set(more))), b"\xff\xfe", b"\xed\xa0\x80")

    def make(self) -> dict[str, Any]:
        """Return key, value and headers of a record."""
        pick = self._random.choice
        event = make_event(
            pick((1, 2, 3, 7, 2**63 - 1)),
            pick(("1", "2", "3", "\U0001f4e6", "x" * 1_001)),
            event_type=pick(("OrderPlaced", "OrderPlaced", "OrderPaid")),
            event_id=pick(("", "1", "x" * 256, None, None, None)),
            source=pick(("orders.1", "orders.1", "orders.2", "o\0")),
        )
        message = self._contract.message_of(event)
        headers: list[Header] = [(name.encode(), value) for name, value in message.headers]
        record: dict[str, Any] = {"key": message.key, "value": message.value, "headers": headers}
        for _ in range(pick((0, 1, 1, 1, 2, 3, 8))):
            pick(self._changes)(self, record)
        while _size(record) > _MAX_BYTES:
            del record["headers"][len(record["headers"]) // 2 :]
        return record

    def _change_key(self, record: dict[str, Any]) -> None:
        record["key"] = self._octets()

    def _change_value(self, record: dict[str, Any]) -> None:
        record["value"] = self._payload()

    def _change_header(self, record: dict[str, Any]) -> None:
        if record["headers"]:
            at = self._random.randrange(len(record["headers"]))
            record["headers"][at] = (record["headers"][at][0], self._octets())

    def _repeat_header(self, record: dict[str, Any]) -> None:
        if record["headers"]:
            name, value = self._random.choice(record["headers"])
            record["headers"].append((name, self._random.choice((value, self._octets()))))

    def _drop_header(self, record: dict[str, Any]) -> None:
        if record["headers"]:
            del record["headers"][self._random.randrange(len(record["headers"]))]

    def _add_headers(self, record: dict[str, Any]) -> None:
        for _ in range(self._random.choice((1, 2, 100))):
            record["headers"].append((self._random.choice(self._names), self._octets()))

    def _replace_all(self, record: dict[str, Any]) -> None:
        record["headers"] = []
        self._add_headers(record)
        record.update(key=self._octets(), value=self._payload())

    _changes: Sequence[Callable[["Records", dict[str, Any]], None]] = (
        *(_change_key, _change_value, _change_value, _change_header, _change_header),
        *(_repeat_header, _drop_header, _add_headers, _replace_all),
    )

    def _octets(self) -> bytes | None:
        random = self._random
        kind = random.randrange(10)
        if kind == 0:
            return None
        if kind < 4:
            return random.choice(_NUMBERS).encode()
        if kind < 7:
            return random.choice(_TEXTS).encode()
        return random.choice(_BYTES) if kind < 9 else random.randbytes(random.choice((1, 16, 300)))

    def _payload(self) -> bytes | None:
        random = self._random
        kind = random.randrange(20)
        if kind < 4:
            opening, closing = random.choice((("[", "]"), ('{"a":', "}"), ("[", "")))
            depth = random.choice(_DEPTHS)
            return f"{opening * depth}1{closing * depth}".encode()
        if kind == 4:
            return json.dumps("\u00e9" * random.choice((10, 10_000, 100_000)), ensure_ascii=False).encode()
        return random.choice(_VALUES).encode() if kind < 14 else self._octets()


def _size(record: dict[str, Any]) -> int:
    octets = (record["key"], record["value"], *(part for header in record["headers"] for part in header))
    return sum(len(each or b"") for each in octets)


class Run:
    """A topic with random records and good events, and the consumer that reads it.

    Args:
        good: The good events, by the partition that they are in.
    """

    def __init__(self, service: Service, random: Random) -> None:
        self.service, self.pipeline = service, service.pipeline
        self._random = random
        self.good: dict[int, list[RecordedEvent]] = {}

    def send(self, records: int, *, hostile: Sequence[int], good: Sequence[int]) -> None:
        """Send so many random records to some partitions, and good events to some.

        The outbox holds the good events, so that `verify` has something to compare.
        """
        per_partition = max(1, records // _GOOD_SHARE // len(good))
        for partition in good:
            self.good[partition] = self._write(per_partition, f"good-{partition}")
        contract, topic = self.pipeline.spec.contract, self.pipeline.topic
        made = Records(self._random, contract)
        sent: list[tuple[int, dict[str, Any]]] = [
            (self._random.choice(hostile), made.make()) for _ in range(records - per_partition * len(good))
        ]
        for partition, events in self.good.items():
            places = sorted(self._random.randrange(len(sent) + 1) for _ in events)
            for place, event in zip(reversed(places), reversed(events), strict=True):
                message = contract.message_of(event)
                headers = [(name.encode(), value) for name, value in message.headers]
                sent.insert(place, (partition, {"key": message.key, "value": message.value, "headers": headers}))
        with RawProducer(self.pipeline.stack.broker.bootstrap_servers) as producer:
            for number, (partition, record) in enumerate(sent, 1):
                producer.produce(topic, partition, **record)
                if number % _FLUSHED == 0:
                    producer.flush()
            producer.flush()
        assert sum(self.pipeline.stack.broker.ends(topic).values()) == records

    def _write(self, count: int, aggregate_id: str) -> list[RecordedEvent]:
        spec = self.pipeline.spec
        event = Event(aggregate_type="order", aggregate_id=aggregate_id, type="OrderPlaced", payload={})
        with psycopg.connect(self.pipeline.dsn) as connection:
            return Outbox(spec=spec).add_all(connection, [event] * count)

    def consumer(self, *, room: int = _ROOM) -> Consumer:
        """Return a consumer that parks so many events, whatever their bytes."""
        limits = replace(QUICK_LIMITS, max_parked_events=room, max_parked_bytes=_ROOM_BYTES)
        return self.service.consumer(retry=PATIENT, limits=limits)

    def effects(self, partition: int) -> list[int]:
        """Return the numbers of the good events of a partition, in the order of their effects."""
        query = "select sequence from effects where aggregate = %s order by number"
        return [sequence for (sequence,) in self.service.rows(query, f"good-{partition}")]

    def check_effects(self) -> None:
        """Hold that each good event had its effect once, in order."""
        for partition, events in self.good.items():
            assert self.effects(partition) == [event.sequence for event in events], f"partition {partition}"

    def read_to_the_end(self, seconds: float) -> Counter[str]:
        """Run a consumer until it is done with every record, and return what became of them."""
        ends = sum(self.pipeline.stack.broker.ends(self.pipeline.topic).values())
        read = "select coalesce(sum(next_offset), 0) from inbox_epochs where consumer = %s and topic = %s"
        with self.service.running(self.consumer()) as consumer:
            eventually(
                lambda: self.service.one(read, self.service.name, self.pipeline.topic) == ends,
                "the end of the topic",
                seconds=seconds,
            )
        return Counter({str(outcome): count for outcome, count in consumer.outcomes.items()})

    def verify(self) -> None:
        """Hold that `verify` comes to its end, and misses no good event."""
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "spec.yaml"
            spec.write_text(Pipeline.text(self.pipeline.name))
            environment = {
                "CDC_OUTBOX_DSN": self.pipeline.dsn,
                "CDC_OUTBOX_BOOTSTRAP_SERVERS": self.pipeline.stack.broker.bootstrap_servers,
            }
            asked = ("--consumer", self.service.name, "--settle=0s", "--output=json")
            done = run_command("verify", spec, *asked, env=environment)
        assert done.returncode in {0, 3}, done.stderr
        assert "Traceback" not in done.stderr
        assert "good-" not in done.stdout, "a good event differs"

    def replay(self) -> None:
        """Hold that a replay of everything comes to its end, and repeats no effect."""
        assert self.consumer().replay().is_complete
        self.check_effects()


def explore(service: Service, records: int, seed: int, *, seconds: float = 180) -> Counter[str]:
    """Send random records to every partition, read them to the end, verify and replay; return what became of them."""
    run = Run(service, Random(seed))
    run.send(records, hostile=range(PARTITIONS), good=range(PARTITIONS))
    outcomes = run.read_to_the_end(seconds)
    run.check_effects()
    run.verify()
    run.replay()
    return outcomes


def explore_bound(service: Service, records: int, seed: int, *, room: int, seconds: float = 180) -> None:
    """Send random records to one partition, and hold that the bound of the park pauses this one and no other."""
    run = Run(service, Random(seed))
    run.send(records, hostile=[0], good=[1, 2])
    with service.running(run.consumer(room=room)) as consumer:
        eventually(lambda: consumer.progress().paused, "the pause", seconds=seconds)
        eventually(
            lambda: all(len(run.effects(partition)) == len(run.good[partition]) for partition in run.good),
            "the effects of the other partitions",
            seconds=seconds,
        )
        paused = consumer.progress().paused
    assert [(each.topic, each.partition) for each in paused] == [(service.pipeline.topic, 0)]
    assert len(service.parked()) <= room
    run.read_to_the_end(seconds)
    run.check_effects()


def main() -> int:
    """Run the long way and print what became of the records."""
    parser = argparse.ArgumentParser(prog="infra/fuzz records", description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable()  # each parked record is told
    with Stack(StackConfig(name="fuzz-records", workers=0)) as stack:
        for name, work in (
            ("bound raised", lambda service: explore(service, options.records, options.seed, seconds=3_600)),
            ("bound of 1,000", lambda service: explore_bound(service, 10_000, options.seed, room=1_000, seconds=3_600)),
        ):
            pipeline = Pipeline.make(stack)
            pipeline.create_topics(PARTITIONS)
            began = time.monotonic()
            try:
                found = work(Service(pipeline))
            except Exception:  # noqa: BLE001 - told here
                traceback.print_exc()
                return 1
            told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted((found or Counter()).items()))
            print(f"{name}: {told or 'one partition paused'}, in {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
