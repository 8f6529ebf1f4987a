"""Whether this relay may publish: the publisher that the database names, compared with slot and server. Pure."""

from collections.abc import Mapping

from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.heartbeats import Heartbeat
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.publishers import LogIdentity, Publisher, PublisherKind
from cdc_outbox.relay.relay_errors import (
    NotThePublisherError,
    ServerChangedError,
    SlotLostError,
    SlotMovedError,
    SlotNotFoundError,
)


def require_publisher(publisher: Publisher | None, slot: str, *, epoch: int | None = None) -> Publisher:
    """Return the publisher if it is a relay that reads this slot.

    Args:
        epoch: That of this relay, once it has one.

    Raises:
        NotThePublisherError: It is another publisher, or none is written down.
    """
    if publisher is None:
        raise NotThePublisherError(f"the database does not say who publishes the outbox through the slot {slot}")
    if publisher.kind is not PublisherKind.WAL_RELAY:
        raise NotThePublisherError(f"the outbox is published by {publisher.kind}, not by a relay")
    if publisher.slot != slot:
        raise NotThePublisherError(f"the outbox is published through the slot {publisher.slot}, not through {slot}")
    if epoch is not None and publisher.epoch != epoch:
        raise taken_over(publisher)
    return publisher


def taken_over(publisher: Publisher | None) -> NotThePublisherError:
    """Return the error of a relay whose epoch is over."""
    instance = f" ({publisher.instance})" if publisher is not None and publisher.instance else ""
    return NotThePublisherError(
        f"another publisher{instance} has taken over", hint="Start this relay again if it is to wait for the other one."
    )


def require_log(publisher: Publisher, log: LogIdentity) -> None:
    """Check that the server writes the log that was read before, on the same timeline or a later one.

    Raises:
        ServerChangedError: It is a standby, or another server.
    """
    if log.timeline is None:
        raise ServerChangedError("the server is a standby", expected="a primary", found="a standby")
    if log.system != publisher.log.system:
        raise ServerChangedError(
            f"the server's system identifier is {log.system}, and was {publisher.log.system}",
            expected=publisher.log.system,
            found=log.system,
        )


def require_slot(slot: SlotFacts | None, name: str) -> SlotFacts:
    """Return the slot if it can be read.

    Raises:
        SlotNotFoundError: It does not exist.
        SlotLostError: The server removed WAL that it needs.
    """
    if slot is None:
        raise SlotNotFoundError(f"the slot {name} does not exist", slot=name)
    if slot.wal_status == "lost" or slot.invalidation:
        reason = slot.invalidation or "the server removed WAL that it needs"
        raise SlotLostError(f"the slot {name} is lost: {reason}", slot=name)
    return slot


def require_own_heartbeats(foreign: Heartbeat | None) -> None:
    """Check that the database wrote the newest heartbeat in Kafka.

    Raises:
        NotThePublisherError: It did not.
    """
    if foreign is not None:
        raise NotThePublisherError(
            f"Kafka contains heartbeat {foreign.number} of {foreign.at:%Y-%m-%d %H:%M:%S%z}, and this database does "
            "not: a copy of this server publishes, or this server was restored to an older state or lost commits",
            hint="If the other server is the right one, stop this one. If this server is the right one, stop the other "
            "one, run `cdc-outbox verify SPEC` to list the events that differ and `cdc-outbox recover SPEC --accept`, "
            "and start this relay.",
        )


def require_position(
    publisher: Publisher, log: LogIdentity, name: str, found: Lsn, branches: Mapping[int, Lsn] | None
) -> None:
    """Check that only relays moved the slot ahead.

    A slot may be behind: a server that crashes forgets confirmations, see :func:`find_start`. On a server that was
    promoted, it may be ahead of what its copy of the row says, but not of where its timeline left the one that was read
    before.

    Args:
        name: The slot's.
        found: Where it was confirmed.
        branches: Where the server's earlier timelines ended; ``None`` while that is not known.

    Raises:
        SlotMovedError: The slot is further: it was advanced, read by others, or created again.
        ServerChangedError: The server's log does not continue the one that was read before.
    """
    limit = publisher.confirmed
    if log.timeline != publisher.log.timeline:
        if branches is None:
            return
        before = publisher.log.timeline or 0
        limit = branches.get(before)
        if limit is None:
            raise ServerChangedError(
                f"the server's timeline {log.timeline} does not continue {before}",
                expected=f"timeline {before}",
                found=f"timeline {log.timeline}",
            )
    if limit is not None and found > limit:
        raise SlotMovedError(
            f"the slot {name} is at {found}, and relays confirmed up to {limit}",
            slot=name,
            expected=limit,
            found=found,
        )


def find_start(publisher: Publisher, log: LogIdentity, found: Lsn, flushed: Lsn | None) -> Lsn | None:
    """Return the position from which to read, ``None`` for the slot's own.

    A server that crashes forgets what its slots confirmed since they were last saved, and keeps the row. The server
    obeys any position and skips what lies before it, so the row's counts only where it is certainly one of this log.

    Args:
        found: Where the slot was confirmed.
        flushed: Up to where the log is on the server's disk, read after the row.

    Raises:
        ServerChangedError: The log ends before what relays published from it.
    """
    confirmed = publisher.confirmed
    if log != publisher.log or confirmed is None or confirmed <= found:
        return None
    if flushed is None or confirmed > flushed:
        raise ServerChangedError(
            f"the server's log ends at {flushed}, and relays confirmed up to {confirmed}",
            expected=f"a log that reaches {confirmed}",
            found=f"a log that ends at {flushed}",
            hint="Check the DSN. If this is the right server, it lost commits: run `cdc-outbox verify SPEC` to list "
            "the events that differ, then `cdc-outbox relay SPEC --create-slot --take-over`, and start this relay.",
        )
    return confirmed


def claimed_position(publisher: Publisher, log: LogIdentity, start: Lsn) -> Lsn:
    """Return what a relay writes that begins to read at ``start``: relays have confirmed nothing behind it.

    A position of another timeline must not become one of this timeline, where other events may lie before it.
    """
    return max(start, publisher.confirmed or start) if log == publisher.log else start
