"""What becomes of slots, publications and offsets when a connector of PostgreSQL's starts, stops and goes on."""

from dataclasses import dataclass

from tests.proofs.place import PostgresPlace
from tests.proofs.proof import Changes
from tests.proofs.ran import Ran, Seen, Site, arrives, fails, nothing

_ACTION = "heartbeat.action.query"
_BLOCKED: Changes = {
    "max.batch.size": "1",
    "max.queue.size": "2",
    "heartbeat.interval.ms": None,
    _ACTION: None,
    # Topics that nobody makes: the connector can hand on nothing.
    **dict.fromkeys(
        f"topic.creation.default.{name}"
        for name in ("partitions", "replication.factor", "cleanup.policy", "message.timestamp.type")
    ),
}
_DRIVER: Changes = {"lsn.flush.mode": "connector_and_driver", _ACTION: None, "status.update.interval.ms": "1000"}
_LONG = "{name}" + "_" * 63


def _stop_write_resume(place: PostgresPlace) -> None:
    """Write while the connector is stopped, and again when it runs."""
    place.event("first")
    place.until(lambda: place.messages("first"))

    def stopped() -> None:
        place.until(lambda: place.reader() is None)
        place.event()

    place.restart(stopped)
    place.event("later")


def _restart(place: PostgresPlace) -> None:
    place.event()
    place.until(place.messages)
    place.restart()
    place.event("later")


def _after_the_first(place: PostgresPlace) -> None:
    place.until(lambda: place.messages("first"))
    place.event()


def _restart_when_the_driver_is_ahead(place: PostgresPlace) -> None:
    place.event("first")
    place.until(lambda: place.messages("first"))
    place.sql("create table {name}.busy as select 1")
    place.mark()
    # From here on the slot need not keep what is before; PostgreSQL notes it by itself every 15 seconds.
    place.sql("select pg_log_standby_snapshot()")
    place.until(place.has_given_up)
    place.restart(place.event)
    place.event("later")


def _make_the_slot_anew(place: PostgresPlace) -> None:
    """Lose a slot, and with it an event that is committed before another one of its name is made."""
    place.event("first")
    place.until(lambda: place.messages("first"))

    def stopped() -> None:
        place.until(lambda: place.reader() is None)
        place.sql("select pg_drop_replication_slot('{name}')")
        place.event()
        place.make_slot()

    place.restart(stopped)
    place.event("later")


def _more_than_fits(place: PostgresPlace) -> None:
    place.until(place.reader)
    for _ in range(40):
        place.event()


def _both(place: PostgresPlace) -> bool:
    return bool(place.messages("later")) and bool(place.messages())


@dataclass(frozen=True, kw_only=True)
class Beside(Ran):
    """What does not come: the fixed connector runs at the same time, and shows that there was time enough."""

    def prove(self, site: Site) -> None:
        """Run both."""
        instead = self.instead or arrives
        with site.room.taken(2), self.acted(site, self.changes) as flagged, self.acted(site, self.fixed) as fixed:
            fixed.until(lambda: instead(fixed))
            flagged.until(lambda: self.shows(flagged))
            assert not self.shows(fixed)


@dataclass(frozen=True, kw_only=True)
class HeldBack(Ran):
    """WAL that is kept: the fixed connector runs beside it, and twice confirms what the flagged one does not."""

    shows: Seen = arrives
    apart: bool = True

    def prove(self, site: Site) -> None:
        """Run both."""
        with site.room.taken(2), self.acted(site, self.changes) as flagged, self.acted(site, self.fixed) as fixed:
            flagged.until(flagged.reader)
            fixed.until(fixed.reader)
            flagged.mark()
            for _ in range(2):
                fixed.mark()
                fixed.until(fixed.has_read)
            assert not flagged.has_read()
            assert flagged.runs()


RAN: tuple[Ran, ...] = (
    Ran(
        code="CC516",
        changes={"snapshot.mode": "always"},
        act=_restart,
        shows=lambda place: len(place.messages()) > 1,
        instead=lambda place: place.messages("later"),
    ),
    Beside(
        code="CC517",
        prepare="insert into {name}.outbox (aggregatetype, aggregateid, payload) values ('first', '42', '{}')",
        changes={"snapshot.mode": "initial_only"},
        fixed={"snapshot.mode": "initial"},
        act=_after_the_first,
        shows=lambda place: place.messages("first") and not place.messages() and place.reader() is None,
    ),
    Ran(
        code="CC601",
        changes={"plugin.name": None, "slot.name": "{name}_mine"},
        shows=fails("PSQLException", "decoderbufs"),
    ),
    Ran(
        code="CC604",
        apart=True,
        prepare="create publication dbz_publication for table {name}.other",
        changes={"publication.name": None},
        shows=nothing,
    ),
    Ran(
        code="CC605",
        apart=True,
        prepare="grant create on database {name} to connector",
        changes={"publication.name": "{name}_new", "publication.autocreate.mode": None},
        shows=lambda place: (
            place.runs()
            and "must be superuser to create FOR ALL TABLES publication" in place.log()
            and not place.messages()
        ),
    ),
    Ran(
        code="CC606",
        prepare=f"create publication {_LONG}_of_one_service for table {{name}}.outbox",
        changes={"publication.name": f"{_LONG}_of_another"},
        fixed={"publication.name": "{name}_of_another"},
        shows=arrives,
        instead=fails("ConnectException", "Publication autocreation is disabled"),
    ),
    Ran(
        code="CC608",
        changes={"slot.drop.on.stop": "true"},
        act=_stop_write_resume,
        shows=fails("DebeziumException", "no longer available on the server"),
        instead=_both,
    ),
    Ran(
        code="CC612",
        apart=True,
        changes=_DRIVER,
        fixed={"status.update.interval.ms": "1000"},
        act=_restart_when_the_driver_is_ahead,
        shows=fails("DebeziumException", "no longer available on the server"),
        instead=_both,
    ),
    *(
        Ran(
            code="CC619",
            changes={"offset.mismatch.strategy": strategy},
            act=_make_the_slot_anew,
            shows=lambda place: place.messages("later") and not place.messages(),
            instead=fails("DebeziumException", "no longer available on the server"),
        )
        for strategy in ("trust_slot", "trust_greater_lsn")
    ),
    Beside(
        code="CC614",
        apart=True,
        prepare="alter database {name} set wal_sender_timeout = '1s'",
        changes={**_BLOCKED, "status.update.interval.ms": "60000"},
        fixed={**_BLOCKED, "status.update.interval.ms": "300"},
        also=("CC258", "CC607"),
        act=_more_than_fits,
        shows=lambda place: place.runs() and not place.reader(),
        instead=lambda place: place.reader(),
    ),
    Ran(
        code="CC616",
        prepare=(
            "drop publication {name};\n"
            "create table {name}.outbox_p (like {name}.outbox including defaults) partition by list (aggregatetype);\n"
            "drop table {name}.outbox;\n"
            "alter table {name}.outbox_p rename to outbox;\n"
            "create table {name}.outbox_2026_11 partition of {name}.outbox for values in ('first');\n"
            "create table {name}.outbox_2026_12 partition of {name}.outbox for values in ('order');\n"
            "grant select on all tables in schema {name} to connector;\n"
            "create publication {name} for table {name}.outbox with (publish_via_partition_root = false)"
        ),
        changes={"table.include.list": "{name}.outbox_2026_11", "predicates.isOutbox.pattern": ".*outbox.*"},
        shows=nothing,
        fixed={"table.include.list": "{name}.outbox.*", "predicates.isOutbox.pattern": ".*outbox.*"},
    ),
    Ran(
        code="CC617",
        apart=True,
        prepare="grant create on database {name} to connector",
        changes={"publication.name": "{name}_new", "publication.autocreate.mode": "no_tables"},
        shows=nothing,
    ),
    Ran(
        code="CC618",
        apart=True,
        prepare=("alter publication {name} owner to connector;\nalter table {name}.outbox owner to connector"),
        changes={"publication.autocreate.mode": "filtered"},
        fixed={"publication.autocreate.mode": "filtered", "skipped.operations": None},
        shows=lambda place: place.runs() and 'syntax error at or near "WITH"' in place.log() and not place.messages(),
    ),
    HeldBack(
        code="CC513",
        apart=True,
        changes={_ACTION: "insert into {name}.beats (note) values ('x')"},
    ),
    HeldBack(
        code="CC514",
        changes={"heartbeat.interval.ms": "0"},
        also=("CC607",),
    ),
    HeldBack(
        code="CC607",
        apart=True,
        changes={"heartbeat.interval.ms": None, _ACTION: None},
    ),
    HeldBack(code="CC609", changes={"flush.lsn.source": "false"}),
    HeldBack(
        code="CC610",
        changes={_ACTION: None},
    ),
    HeldBack(code="CC526", changes={_ACTION: "select 1"}),
    HeldBack(
        code="CC613",
        changes={"lsn.flush.mode": "manual"},
    ),
)
