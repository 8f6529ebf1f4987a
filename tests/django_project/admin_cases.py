"""The admin, the model and the view, inside Django's own test run."""

from datetime import UTC, datetime, timedelta
from typing import ClassVar
from uuid import UUID

from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import get_current_timezone

from cdc_outbox import TOMBSTONE, Event, RecordedEvent
from cdc_outbox.contrib.django import outbox
from cdc_outbox.contrib.django.models import OutboxEvent
from cdc_outbox.errors import OutboxError

LIST = "/admin/cdc_outbox/outboxevent/"
PAYLOAD = '{"note":   "<script>alert(1)</script>", "n": 1.00}'
"""With what a reader that parses it would lose."""


class OutboxCase(TestCase):
    placed: ClassVar[RecordedEvent]
    removed: ClassVar[RecordedEvent]
    staff: ClassVar[User]
    stranger: ClassVar[User]
    superuser: ClassVar[User]

    @classmethod
    def setUpTestData(cls) -> None:
        cls.placed = outbox.add(Event(aggregate_type="customer", aggregate_id="42", type="Placed", payload=PAYLOAD))
        cls.removed = outbox.add(Event(aggregate_type="visit", aggregate_id="v 7", type="Removed", payload=TOMBSTONE))
        cls.staff = User.objects.create_user("staff", is_staff=True)
        cls.staff.user_permissions.add(Permission.objects.get(codename="view_outboxevent"))
        cls.superuser = User.objects.create_superuser("root")
        cls.stranger = User.objects.create_user("stranger", is_staff=True)

    def setUp(self) -> None:
        self.client.force_login(self.staff)

    def listed(self, **query: str) -> list[str]:
        answer = self.client.get(LIST, query)
        assert answer.status_code == 200
        return [str(event.id) for event in answer.context["cl"].result_list]


class AdminTest(OutboxCase):
    def test_events_are_listed_youngest_first(self) -> None:
        assert self.listed() == [str(self.removed.id), str(self.placed.id)]
        text = self.client.get(LIST).content.decode()
        for shown in ("customer", "42", "Placed", "orders.1", str(self.placed.id)):
            assert f">{shown}<" in text

    def test_they_are_found_by_what_they_are_about(self) -> None:
        placed, removed = str(self.placed.id), str(self.removed.id)
        assert self.listed(aggregate_type="customer") == [placed]
        assert self.listed(type="Removed") == [removed]
        assert self.listed(q="42") == [placed]
        assert self.listed(q="v 7") == [removed]
        assert self.listed(q=removed) == [removed]
        assert self.listed(q="4") == []

    def test_the_list_reads_no_payloads(self) -> None:
        with CaptureQueriesContext(connection) as queries:
            self.listed()
        assert [query for query in queries.captured_queries if "payload" in query["sql"]] == []

    def test_a_page_shows_the_payload_as_it_was_written(self) -> None:
        answer = self.client.get(f"{LIST}{self.placed.id}/change/")
        assert answer.status_code == 200
        escaped = PAYLOAD.replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
        assert escaped in answer.content.decode()
        assert self.client.get(f"{LIST}{self.removed.id}/change/").status_code == 200

    def test_nobody_writes(self) -> None:
        page = f"{LIST}{self.placed.id}/"
        for user in (self.staff, self.superuser):
            self.client.force_login(user)
            for path in (f"{LIST}add/", f"{page}delete/"):
                assert self.client.get(path).status_code == 403
                assert self.client.post(path, {"post": "yes"}).status_code == 403
            assert self.client.post(f"{page}change/", {"type": "Other"}).status_code == 403
            chosen = {"action": "delete_selected", "_selected_action": str(self.placed.id), "post": "yes"}
            self.client.post(LIST, chosen)
            assert "delete_selected" not in self.client.get(LIST).content.decode()
        assert OutboxEvent.objects.get(id=self.placed.id).type == "Placed"

    def test_who_may_not_view_events_sees_none(self) -> None:
        self.client.force_login(self.stranger)
        for path in (LIST, f"{LIST}{self.placed.id}/change/"):
            assert self.client.get(path).status_code == 403

    def test_there_is_no_other_permission(self) -> None:
        names = Permission.objects.filter(content_type__app_label="cdc_outbox").values_list("codename", flat=True)
        assert list(names) == ["view_outboxevent"]


class ModelTest(OutboxCase):
    def test_a_row_is_read_as_it_was_written(self) -> None:
        event = OutboxEvent.objects.get(id=self.placed.id)
        read = (event.id, event.aggregate_type, event.aggregate_id, event.type, event.payload, event.sequence)
        assert read == (UUID(self.placed.id), "customer", "42", "Placed", PAYLOAD, 1)
        assert (event.source, event.created_at) == (self.placed.source, self.placed.created_at)
        assert OutboxEvent.objects.get(id=self.removed.id).payload is None

    def test_times_are_utc_and_compared_as_times(self) -> None:
        event, minute = OutboxEvent.objects.get(id=self.placed.id), timedelta(minutes=1)
        assert event.created_at.tzinfo is UTC
        now = datetime.now(get_current_timezone())
        assert abs(event.created_at - now) < minute
        assert OutboxEvent.objects.filter(created_at__gt=now - minute, created_at__lt=now + minute).count() == 2
        assert OutboxEvent.objects.filter(created_at__gt=now + minute).count() == 0

    def test_nothing_is_written_through_it(self) -> None:
        event = OutboxEvent.objects.get(id=self.placed.id)
        events = OutboxEvent.objects
        writes = (
            event.save,
            event.delete,
            events.all().delete,
            lambda: events.update(type="Other"),
            lambda: events.create(id=self.placed.id),
            lambda: events.bulk_create([event]),
            lambda: events.bulk_update([event], ["type"]),
        )
        for write in writes:
            with self.assertRaises(OutboxError):  # noqa: PT027 - it is not pytest that runs it
                write()
        assert OutboxEvent.objects.filter(type="Placed").count() == 1


class ViewTest(TestCase):
    def test_the_documented_view_adds_events(self) -> None:
        order = {"customer": "42", "total_cents": "1999"}
        assert [self.client.post("/orders", order).json() for _ in range(2)] == [{"sequence": 1}, {"sequence": 2}]
        assert OutboxEvent.objects.filter(aggregate_id="42").count() == 2

    def test_many_events_go_the_same_way(self) -> None:
        event = Event(aggregate_type="customer", aggregate_id="42", type="Placed", payload={})
        with outbox.collect() as events:
            events.add(event)
        assert [added.sequence for added in outbox.add_all([event, event])] == [2, 3]
