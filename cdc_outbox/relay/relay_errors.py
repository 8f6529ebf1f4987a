"""What keeps the relay from publishing: a branch of the tree in :mod:`cdc_outbox.errors`.

::

    CdcOutboxError
    └── RelayError
        ├── RelayRefusedError                  .findings
        ├── DeliveryError                      retryable
        ├── MessageRefusedError
        ├── NotThePublisherError
        ├── SlotError                          .slot
        │   ├── SlotInUseError                 retryable
        │   ├── SlotNotFoundError
        │   ├── SlotLostError
        │   └── SlotMovedError                 .expected .found
        ├── PublicationNotFoundError           .publication
        └── ServerChangedError                 .expected .found
"""

from collections.abc import Sequence

from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.relay_refusals import RelayRefusal
from cdc_outbox.errors import CdcOutboxError


class RelayError(CdcOutboxError):
    """The relay cannot publish."""


class RelayRefusedError(RelayError):
    """A spec asks for what the relay does not do; nothing was read.

    Args:
        findings: Each with the option, the reason and what to do.
    """

    hint = "Change the spec, or publish with Debezium: `cdc-outbox deploy-connector SPEC`."

    def __init__(self, message: str, *, findings: Sequence[RelayRefusal], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.findings = tuple(findings)


class DeliveryError(RelayError):
    """The sink did not deliver a message, and may deliver it when the relay reads it again."""

    retryable = True
    hint = "Check that the sink's server runs; the relay publishes again from the last confirmed position."


class MessageRefusedError(RelayError):
    """The sink refuses a message and would refuse it again; nothing after it was published."""

    hint = "Change the limit or the privilege that the message names, and start the relay again."


class NotThePublisherError(RelayError):
    """The row of the outbox's publishers does not name this relay, which confirmed nothing since.

    Debezium publishes, or another relay has taken over, or the outbox has no publisher yet. Or the row is that of a
    server of which there is a copy, and the copy's relay publishes.
    """

    hint = (
        "Two publishers of one outbox publish each event twice. Delete the connector, then run `cdc-outbox relay SPEC "
        "--create-slot --take-over` once."
    )


class SlotError(RelayError):
    """The slot cannot be read as it is.

    Args:
        slot: Its name.
    """

    def __init__(self, message: str, *, slot: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.slot = slot


class SlotInUseError(SlotError):
    """Another connection reads the slot."""

    retryable = True
    hint = "Find what reads the slot: pg_replication_slots has its active_pid. Stop it, or let this relay wait."


class SlotNotFoundError(SlotError):
    """The slot does not exist. The relay never creates it again: events written since would not be published."""

    hint = "Run `cdc-outbox verify SPEC` to list the events that were not published before you create a slot."


class SlotLostError(SlotError):
    """The server has removed WAL that the slot needs, so the slot cannot be read any more."""

    hint = (
        "Run `cdc-outbox verify SPEC` to list the events that were not published, then drop the slot and create it "
        "again. Raise max_slot_wal_keep_size so that it does not happen again."
    )


class SlotMovedError(SlotError):
    """The slot is further than the relay confirmed: it was advanced, read by others, or created again.

    Args:
        expected: The last position that a relay confirmed, or where the timeline of that log ended.
        found: The slot's position.
    """

    hint = "Run `cdc-outbox verify SPEC` to list the events between the two positions that were not published."

    def __init__(self, message: str, *, slot: str, expected: Lsn, found: Lsn, hint: str | None = None) -> None:
        super().__init__(message, slot=slot, hint=hint)
        self.expected = expected
        self.found = found


class PublicationNotFoundError(RelayError):
    """The publication does not exist, or does not publish the outbox's inserted rows.

    Args:
        publication: Its name.
    """

    hint = (
        "Run `cdc-outbox init SPEC`, which creates the publication, and `cdc-outbox verify SPEC`: events that were "
        "written while it was missing are not in the stream."
    )

    def __init__(self, message: str, *, publication: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.publication = publication


class ServerChangedError(RelayError):
    """Another server than before answers, or one that is a standby.

    Args:
        expected: The system identifier that the relay read from before, or what the server must be.
        found: What it is.
    """

    hint = "Check the DSN: the relay must read from the primary that it read from before, or from its successor."

    def __init__(self, message: str, *, expected: str, found: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.found = found
