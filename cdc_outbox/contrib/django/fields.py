"""The outbox's columns as Django reads them: where its own fields would expect another shape."""

from datetime import UTC, datetime
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class EventIdField(models.UUIDField):  # type: ignore[type-arg]
    """An event's id, which is text with hyphens where the database has no type for it; Django's has none."""

    def get_db_prep_value(self, value: object, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002 - Django's signature
        """Return the id as the column has it."""
        event_id = self.to_python(value)
        return event_id if event_id is None or connection.vendor == "postgresql" else str(event_id)


class PayloadField(models.TextField):  # type: ignore[type-arg]
    r"""A payload as the text that was written; bytes as PostgreSQL spells them, ``\x00ff``."""

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:  # noqa: ANN401
        """Ask PostgreSQL for text: its drivers would make objects of json."""
        return (f"cast({sql} as text)" if compiler.connection.vendor == "postgresql" else sql), params

    def from_db_value(self, value: str | bytes | None, *_rest: object) -> str | None:
        """Return the payload that a row has."""
        return f"\\x{value.hex()}" if isinstance(value, bytes) else value


class UtcField(models.DateTimeField):  # type: ignore[type-arg]
    """A time that the column has in UTC without saying so, whatever the zone of project and connection is."""

    def from_db_value(self, value: datetime | None, *_rest: object) -> datetime | None:
        """Return the time that a row has, whatever zone Django took it for."""
        return None if value is None else value.replace(tzinfo=UTC)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002
        """Return the time as the column has it, for conditions."""
        time = value if prepared else self.get_prep_value(value)
        if time is None:
            return None
        in_utc = time.astimezone(UTC).replace(tzinfo=None)
        return in_utc.isoformat(timespec="milliseconds") if connection.vendor == "sqlite" else in_utc
