"""A Django project of one file, whose databases come and go with the tests."""

from itertools import count
from pathlib import Path
from typing import Any

import django
import psycopg
from django.conf import settings
from django.db import connection, connections
from django.db.transaction import Atomic
from django.http import HttpRequest, HttpResponse
from django.urls import path

from cdc_outbox import Outbox
from cdc_outbox.testing import MariaDbDsn
from tests.support.mariadb import MariaDbStore
from tests.support.postgresql import PostgresStore
from tests.support.sqlite import BUSY_SECONDS, SqliteStore
from tests.support.writer_clients import ORDER, Client, Store

if not settings.configured:
    settings.configure(
        DATABASES={"default": {}},
        ALLOWED_HOSTS=["testserver"],
        LOGGING_CONFIG=None,
        ROOT_URLCONF=__name__,
        SECRET_KEY="tests",
    )
    django.setup()
    del connections.settings["default"]  # it comes with a test, as every database

_numbers = count(1)


def place_order(request: HttpRequest) -> HttpResponse:
    """Add an event, and raise if the request says so."""
    Outbox().add(connection, ORDER)
    if "fail" in request.GET:
        raise LookupError
    return HttpResponse()


urlpatterns = [path("orders", place_order)]


def database(store: Store) -> dict[str, Any]:
    """Return an entry of DATABASES."""
    assert isinstance(store, PostgresStore | MariaDbStore | SqliteStore)
    if isinstance(store, SqliteStore):
        return entry(store.path) | {"OPTIONS": {"timeout": BUSY_SECONDS}}
    return entry(store.dsn)


def entry(place: str | MariaDbDsn | Path) -> dict[str, Any]:
    """Return an entry of DATABASES for what a database is reached by: a string of libpq's, or a file."""
    if isinstance(place, str):
        known = psycopg.conninfo.conninfo_to_dict(place)
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": known["dbname"],
            **{key.upper(): known[key] for key in ("host", "port", "user", "password")},
        }
    if isinstance(place, MariaDbDsn):
        return {
            "ENGINE": "django.db.backends.mysql",
            "NAME": place.database,
            **{key.upper(): getattr(place, key) for key in ("host", "port", "user", "password")},
        }
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(place)}


def add_alias(store: Store, alias: str | None = None, **options: Any) -> str:
    """Add a store's database to the project and return its alias."""
    return add_entry(database(store) | options, alias)


def add_entry(database: dict[str, Any], alias: str | None = None) -> str:
    """Add a database to the project and return its alias."""
    alias = alias or f"a{next(_numbers)}"
    complete = connections.configure_settings({"default": {}, alias: database})
    connections.settings[alias] = complete[alias]
    return alias


def remove_alias(alias: str) -> None:
    """Close this thread's connection of an alias and forget the alias."""
    connections[alias].close()
    del connections[alias]
    del connections.settings[alias]


class DjangoClient(Client):
    """A connection of an alias of its own. Outside autocommit it is in an atomic block, and then in the next one."""

    def __init__(self, store: Store, *, autocommit: bool) -> None:
        self.alias = add_alias(store)
        self.connection = self.place = connections[self.alias]
        self.connection.inc_thread_sharing()
        self._autocommit = autocommit
        self._atomic: Atomic | None = None
        if not autocommit:
            self.begin()

    def execute(self, sql: str) -> object:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def begin(self) -> None:
        self._atomic = Atomic(using=self.alias, savepoint=True, durable=True)
        self._atomic.__enter__()

    def commit(self) -> None:
        self._end()
        if not self._autocommit:
            self.begin()

    def rollback(self) -> None:
        self.connection.set_rollback(True)
        self.commit()

    def close(self) -> None:
        if self._atomic is not None:
            self.connection.set_rollback(True)
            self._end()
        self.connection.dec_thread_sharing()
        remove_alias(self.alias)

    def _end(self) -> None:
        assert self._atomic is not None
        atomic, self._atomic = self._atomic, None
        atomic.__exit__(None, None, None)
