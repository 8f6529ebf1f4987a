"""The outbox's rows as Django's models: for reading. Events are written by :class:`~cdc_outbox.Outbox` alone."""

import re
from typing import ClassVar, NoReturn

from django.db import models

from cdc_outbox.contrib.django.fields import EventIdField, PayloadField, UtcField
from cdc_outbox.contrib.django.settings import described_table, event_table, outbox_settings
from cdc_outbox.errors import OutboxError
from cdc_outbox.formats.attributes import ATTRIBUTES, AttributeKind, ColumnNames


def _refuse(*_arguments: object, **_options: object) -> NoReturn:
    raise OutboxError(
        "the model cannot save or delete events",
        hint="Write events with Outbox.add; delete delivered events with `cdc-outbox prune`.",
    )


class OutboxEventQuerySet(models.QuerySet["OutboxEvent"]):
    """Events that can be read."""

    bulk_create = _refuse
    bulk_update = _refuse
    delete = _refuse
    update = _refuse


class OutboxEventManager(models.Manager["OutboxEvent"]):
    """Reads from the database that the outbox is in; routers are not asked."""

    def get_queryset(self) -> OutboxEventQuerySet:
        """Return all events."""
        return OutboxEventQuerySet(self.model, using=self._db or outbox_settings().database)


class OutboxEvent(models.Model):
    """One event, as its row stands in the outbox."""

    id = EventIdField(primary_key=True)
    aggregate_type: "models.TextField[str, str]"
    aggregate_id: "models.TextField[str, str]"
    type: "models.TextField[str, str]"
    payload: PayloadField
    sequence: "models.BigIntegerField[int | None, int | None]"
    source: "models.TextField[str, str]"
    created_at: UtcField

    objects: ClassVar[OutboxEventManager] = OutboxEventManager()

    class Meta:
        """Leave the table to the migrations, and offer no permission but to view it."""

        managed = False
        db_table = event_table()
        default_permissions = ("view",)
        # By the time in the ids, and by the one index that there is.
        ordering = ("-id",)
        verbose_name = "event"

    def __str__(self) -> str:
        return f"{self.type} {self.id}"

    save_base = _refuse
    delete = _refuse


_FIELDS = {
    AttributeKind.PAYLOAD: PayloadField,
    AttributeKind.NUMBER: models.BigIntegerField,
    AttributeKind.TIME: UtcField,
}
"""By what an attribute is; the others are texts."""
for _attribute, _column in [*ColumnNames().names().items()][1:]:
    _type = _FIELDS.get(ATTRIBUTES[_attribute].kind, models.TextField)
    OutboxEvent.add_to_class(_attribute, _type(db_column=_column, null=ATTRIBUTES[_attribute].is_nullable))

HEADER_FIELDS: dict[str, str] = {}
"""Field → header column. The prefix keeps them apart from the other fields; a field's name ends in no underscore."""
for _column, _header in described_table().header_columns.items():
    _name = "header_" + re.sub("_+", "_", _column).strip("_")
    HEADER_FIELDS[_name] = _column
    OutboxEvent.add_to_class(_name, models.TextField(_header, db_column=_column, null=True))
