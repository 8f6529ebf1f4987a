"""Add events to the database that ``CDC_OUTBOX`` names."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cached_property

from django.db import connections

from cdc_outbox.contrib.django.settings import OutboxSettings, outbox_settings
from cdc_outbox.event import Event, RecordedEvent
from cdc_outbox.writer import Collection, Outbox


class AliasOutbox:
    """The writer, for code that need not know which database the outbox is in; everything else is :class:`Outbox`'s."""

    def add(self, event: Event) -> RecordedEvent:
        """Write one event in the transaction that the outbox's database is in; see :meth:`Outbox.add`."""
        return self._outbox.add(connections[self._settings.database], event)

    def add_all(self, events: Iterable[Event]) -> list[RecordedEvent]:
        """Write many events there; see :meth:`Outbox.add_all`."""
        return self._outbox.add_all(connections[self._settings.database], events)

    def collect(self) -> AbstractContextManager[Collection]:
        """Gather a transaction's events there; see :meth:`Outbox.collect`."""
        return self._outbox.collect(connections[self._settings.database])

    @cached_property
    def _settings(self) -> OutboxSettings:
        return outbox_settings()

    @cached_property
    def _outbox(self) -> Outbox:
        return Outbox(table=self._settings.table, contract=self._settings.contract)
