"""What becomes of events while the broker does not answer."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from cdc_outbox.testing.broker import Broker
from tests.proofs.place import PostgresPlace
from tests.proofs.proof import Changes, Proof
from tests.proofs.ran import Site

_QUICK: Changes = {"producer.override.request.timeout.ms": "500", "producer.override.linger.ms": "0"}
"""What makes the outage a short one; 30 s by default."""
_OUTAGE_SECONDS, _PAUSE_SECONDS = 5.0, 0.25


@dataclass(frozen=True, kw_only=True)
class Outage(Proof):
    """A hazard that shows in a task's end, where the fixed one goes on when the broker is back."""

    says: str

    @contextmanager
    def running(self, site: Site, changes: Changes) -> Iterator[PostgresPlace]:
        with site.place(self.code, apart=False) as place:
            for topic in (f"{place.name}.order", f"__debezium-heartbeat.{place.name}"):
                # A topic's first moments are an outage of their own: no retry, no message.
                site.stack.broker.create_topic(topic)
                site.stack.broker.ends(topic)
            place.deploy(self.config(changes, name=place.name, database=place.database))
            place.event()
            # On a busy machine the broker may be slow enough to end a task at once.
            place.until(lambda: place.messages() or _has_failed(self, place))
            yield place


OUTAGES = (
    Outage(
        code="CC205",
        # With idempotence, as it is rendered, Kafka's producer refuses this.
        changes={**_QUICK, "producer.override.retries": "0", "producer.override.enable.idempotence": None},
        fixed=_QUICK,
        says="TimeoutException",
    ),
    Outage(
        code="CC208",
        changes={**_QUICK, "producer.override.delivery.timeout.ms": "600"},
        fixed=_QUICK,
        says="TimeoutException",
    ),
)
"""All of them in one outage."""


def _has_given_up(place: PostgresPlace) -> bool:
    return f"{{id={place.name}-0}} failed to send record" in place.log()


def _has_failed(proof: Outage, place: PostgresPlace) -> bool:
    return proof.says in place.trace()


def _outage_ends(flagged: Sequence[PostgresPlace], fixed: PostgresPlace, broker: Broker) -> bool:
    """Pause the broker for a few seconds, and return whether the flagged ones gave up.

    Not for longer: a worker without its coordinator stops its tasks after 13 s, and then none gives up any more. A busy
    machine may need several outages.
    """
    broker.pause()
    try:
        for place in (fixed, *flagged):
            place.event()
        outage = range(round(_OUTAGE_SECONDS / _PAUSE_SECONDS))
        return any(all(map(_has_given_up, flagged)) or threading.Event().wait(_PAUSE_SECONDS) for _ in outage)
    finally:
        broker.resume()


def prove(site: Site) -> None:
    """Run them all, let the broker pause while events are written, and see which tasks survived."""
    with ExitStack() as places:
        flagged = [(proof, places.enter_context(proof.running(site, proof.changes))) for proof in OUTAGES]
        fixed = places.enter_context(OUTAGES[0].running(site, _QUICK))
        fixed.until(fixed.messages)
        fixed.until(partial(_outage_ends, [place for _, place in flagged], fixed, site.stack.broker))
        for proof, place in flagged:
            place.until(partial(_has_failed, proof, place))
        fixed.until(lambda: len(fixed.messages()) > 1)
        assert fixed.runs()
