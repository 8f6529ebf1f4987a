"""Where the effects are, and what the database says of them; no contestant is believed."""

from dataclasses import dataclass

import psycopg

from benchmarks.consumers.topic import Topic
from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.databases.drivers import Row
from cdc_outbox.databases.drivers.psycopg import Psycopg, connect
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.testing import Stack

_TABLES = """
create table effects (
    id uuid primary key,
    aggregate_id text not null,
    customer int not null,
    times int not null default 1,
    at timestamptz not null default clock_timestamp()
);
create table processed (id uuid primary key);
"""
_LAST = "select count(*) from effects where id = any(%s::uuid[])"
_COUNT = "select count(*), coalesce(sum(times), 0), coalesce(extract(epoch from max(at) - min(at)), 0) from effects"
_REMEMBER = """
insert into inbox (consumer, event_id)
select
    %(consumer)s,
    concat_ws(
        '-', left(stamp, 8), right(stamp, 4), '7' || left(noise, 3), 'a' || substr(noise, 4, 3), substr(noise, 7, 12)
    )
from (
    select
        lpad(to_hex(%(until)s - cast(2592000000.0 * (%(ids)s - number + 1) / %(ids)s as bigint)), 12, '0'),
        md5(cast(number as text))
    from generate_series(1, %(ids)s) as number
) as made (stamp, noise)
"""


@dataclass(frozen=True, slots=True)
class Effects:
    """A database with the effects' table, an inbox and what hand-written code remembers ids in."""

    dsn: str
    connection: psycopg.Connection[Row]

    @classmethod
    def create(cls, stack: Stack, name: str) -> "Effects":
        """Make the database."""
        dsn = stack.postgres.create_database(name)
        connection = connect(dsn)
        with connection.transaction():
            upgrade(lambda sql: Psycopg().fetch(connection, sql), inbox_component(InboxTable()))
            connection.execute(_TABLES)
        return cls(dsn, connection)

    def forget(self) -> None:
        """Empty everything, and have written what the last contestant left to write."""
        inbox = [InboxTable().table, InboxTable().watermarks]
        names = ["effects", "processed", *(table.quoted for table in inbox)]
        self.connection.execute(f"truncate {', '.join(names)}".encode())
        self.connection.execute("checkpoint")

    def remember(self, consumer: str, ids: int, *, until: str) -> None:
        """Fill the inbox with ids of thirty days, as the events would have had them before that id."""
        parameters = {"consumer": consumer, "ids": ids, "until": int(until.replace("-", "")[:12], 16)}
        self.connection.execute(_REMEMBER.replace("inbox", InboxTable().table.quoted).encode(), parameters)
        self.connection.execute(f"vacuum analyze {InboxTable().table.quoted}".encode())

    def forget_since(self, event_id: str) -> None:
        """Forget all that was claimed after an id, and everything but claims."""
        inbox, watermarks = InboxTable().table.quoted, InboxTable().watermarks.quoted
        self.connection.execute(f"truncate effects, {watermarks}".encode())
        self.connection.execute(f"delete from {inbox} where event_id > %s".encode(), (event_id,))  # noqa: S608
        self.connection.execute(f"vacuum {inbox}".encode())
        self.connection.execute("checkpoint")

    def are_complete(self, topic: Topic) -> bool:
        """Tell whether the last event of each partition has its effect; costs the server next to nothing."""
        return self.connection.execute(_LAST, (topic.last_ids,)).fetchone() == (len(topic.last_ids),)

    def seconds(self, topic: Topic) -> float:
        """Return the time from the first effect to the last.

        Raises:
            RuntimeError: They are not one for each event.
        """
        [(rows, times, seconds)] = self.connection.execute(_COUNT).fetchall()
        if not rows == times == topic.events:
            raise RuntimeError(f"{times} effects on {rows} rows, of {topic.events} events")
        return float(seconds)
