"""The outbox in Django's admin: to look at, and nothing else."""

from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.contrib.django.models import HEADER_FIELDS, OutboxEvent
from cdc_outbox.contrib.django.settings import described_table
from cdc_outbox.formats.attributes import ColumnNames

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[OutboxEvent]
else:
    _ModelAdmin = admin.ModelAdmin


class OutboxEventAdmin(_ModelAdmin):
    """Lists events, the youngest first, and shows each with its payload."""

    list_display = tuple(name for name in ColumnNames().names() if name != "payload")
    list_filter = ("aggregate_type", "type")
    search_fields = ("aggregate_id", "id")
    search_help_text = "A whole aggregate id, or an event's id."
    fields = (*[*ColumnNames().names()][:-1], *HEADER_FIELDS, "created_at")
    # Each would read and sort the whole table, for which there is no other index.
    sortable_by = ()
    show_full_result_count = False
    actions = None

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutboxEvent]:
        """Return events without their payloads, which may be large; the page of one event reads its own."""
        return super().get_queryset(request).defer("payload")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[OutboxEvent], search_term: str
    ) -> tuple[QuerySet[OutboxEvent], bool]:
        """Find events by what they are about, or by their id."""
        if not search_term:
            return queryset, False
        wanted = Q(aggregate_id=search_term)
        with suppress(ValueError):
            wanted |= Q(id=UUID(search_term))
        return queryset.filter(wanted), False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: OutboxEvent | None = None) -> bool:
        """Refuse."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: OutboxEvent | None = None) -> bool:
        """Refuse."""
        return False


if described_table().mode is not OutboxMode.MESSAGE:
    admin.site.register(OutboxEvent, OutboxEventAdmin)
