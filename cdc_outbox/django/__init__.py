"""The outbox as a Django app, ``cdc_outbox.django`` in ``INSTALLED_APPS``; the setting ``CDC_OUTBOX`` describes it."""

from cdc_outbox.django.alias import AliasOutbox

__all__ = ["AliasOutbox", "outbox"]

outbox = AliasOutbox()
"""The outbox that ``CDC_OUTBOX`` describes; the setting is read when the first event is added."""
