"""What `manage.py check` finds, each cause planted, inside Django's own test run."""

from typing import Any
from unittest import skipUnless

from django.core.checks import CheckMessage, run_checks
from django.db import connection, connections
from django.test import SimpleTestCase, TestCase, override_settings

FITTING = {"source": "orders"}


def found_by_us(*databases: str) -> list[CheckMessage]:
    return [message for message in run_checks(databases=databases) if str(message.id).startswith("cdc_outbox.")]


def ids(found: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in found]


class RouterThatForbids:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if (db, app_label) == ("default", "cdc_outbox") else None


class SettingsTest(SimpleTestCase):
    def found(self, setting: object) -> list[CheckMessage]:
        with override_settings(CDC_OUTBOX=setting):
            return found_by_us()

    def test_what_fits_is_silent(self) -> None:
        assert self.found(FITTING) == []

    def test_a_setting_that_cannot_be_is_named(self) -> None:
        for setting in (None, {}, FITTING | {"topic": "x"}, FITTING | {"mode": "lose"}):
            with self.subTest(setting=setting):
                assert ids(self.found(setting)) == ["cdc_outbox.E001"]

    def test_an_alias_that_is_not_there_is_named(self) -> None:
        [found] = self.found(FITTING | {"database": "elsewhere"})
        assert (found.id, found.hint) == ("cdc_outbox.E002", "Known are default.")

    def test_a_database_that_can_have_none_is_named(self) -> None:
        connections["default"].vendor = "oracle"
        try:
            found = self.found(FITTING)
        finally:
            del connections["default"].vendor
        assert ids(found) == ["cdc_outbox.E003"]

    @skipUnless(connection.vendor != "postgresql", "PostgreSQL has both")
    def test_what_only_postgresql_can_is_named(self) -> None:
        for wanted in ({"partitions": "day"}, {"mode": "message"}):
            assert ids(self.found(FITTING | wanted)) == ["cdc_outbox.E003"]

    @override_settings(DATABASE_ROUTERS=["check_cases.RouterThatForbids"])
    def test_a_router_that_keeps_migrations_away_is_named(self) -> None:
        assert ids(self.found(FITTING)) == ["cdc_outbox.W001"]


class TablesTest(TestCase):
    def found(self, *statements: str, asked: bool = True) -> list[CheckMessage]:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        return found_by_us(*["default"] * asked)

    def test_what_migrate_made_is_as_it_should_be(self) -> None:
        assert self.found() == []

    def test_tables_that_were_never_made_are_named(self) -> None:
        [found] = self.found("delete from cdc_outbox_version")
        assert found.id == "cdc_outbox.DB343"
        assert found.hint is not None
        assert found.hint.startswith("Run `manage.py migrate --database default`; if it has nothing to do,")

    def test_tables_of_a_later_release_are_named(self) -> None:
        assert ids(self.found("update cdc_outbox_version set version = 99")) == ["cdc_outbox.DB342"]

    def test_none_of_it_keeps_migrate_from_running(self) -> None:
        [found] = self.found("delete from cdc_outbox_version")
        assert not found.is_serious()

    def test_only_databases_that_are_asked_for_are_looked_at(self) -> None:
        assert self.found("delete from cdc_outbox_version", asked=False) == []

    @skipUnless(connection.vendor == "postgresql", "elsewhere the constraint stays, or what is changed commits")
    def test_tables_of_an_earlier_release_are_named(self) -> None:
        unchecked = "alter table cdc_outbox_version drop constraint cdc_outbox_version_version_check"
        assert ids(self.found(f"{unchecked}; update cdc_outbox_version set version = 0")) == ["cdc_outbox.DB341"]  # noqa: S608

    @skipUnless(connection.vendor != "mysql", "there it would be gone for good")
    def test_a_table_that_is_gone_is_named(self) -> None:
        assert "cdc_outbox.DB301" in ids(self.found("drop table outbox_heads"))

    @skipUnless(connection.vendor == "postgresql", "the catalogue is read there only")
    def test_columns_that_are_not_as_init_makes_them_are_named(self) -> None:
        [found] = self.found("alter table outbox alter column type drop not null")
        assert (found.id, found.msg) == ("cdc_outbox.DB306", "public.outbox.type: the column is nullable.")

    @skipUnless(connection.vendor == "postgresql", "elsewhere there are no publications")
    def test_a_publication_that_lacks_the_outbox_is_named_with_the_migration_that_mends_it(self) -> None:
        for statement in ("alter publication orders_outbox drop table outbox", "drop publication orders_outbox"):
            [found] = self.found(statement)
            assert found.id == "cdc_outbox.DB401"
            assert found.hint is not None
            assert "UpgradeOutbox" in found.hint
