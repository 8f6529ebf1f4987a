"""What keeps the relay from publishing: a branch of the tree in :mod:`cdc_outbox.errors`.

::

    CdcOutboxError
    └── RelayError
        ├── DeliveryError                      retryable
        └── MessageRefusedError
"""

from cdc_outbox.errors import CdcOutboxError


class RelayError(CdcOutboxError):
    """The relay cannot publish."""


class DeliveryError(RelayError):
    """The sink did not deliver a message, and may deliver it when the relay reads it again."""

    retryable = True
    hint = "Check that the sink's server runs; the relay publishes again from the last confirmed position."


class MessageRefusedError(RelayError):
    """The sink refuses a message and would refuse it again; nothing after it was published."""

    hint = "Change the limit or the privilege that the message names, and start the relay again."
