"""The outbox as a Django app, ``cdc_outbox.contrib.django`` in ``INSTALLED_APPS``, set up by ``CDC_OUTBOX``."""

from cdc_outbox.contrib.django.alias import AliasOutbox

__all__ = ["AliasOutbox", "outbox"]

outbox = AliasOutbox()
"""The outbox that ``CDC_OUTBOX`` describes; the setting is read when the first event is added."""
