"""An outbox on MariaDB that is pruned, and what is asked of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_outbox import Event, Outbox
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.wait import PASSING, Condition, condition_of
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.mysql import PyMySql, connect
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.debezium.render import render
from cdc_outbox.kafka.clients import consumer_settings
from cdc_outbox.operations.comparison import TopicComparison
from cdc_outbox.operations.connections import OpenDatabase
from cdc_outbox.operations.prune import Pruned, PruneOptions
from cdc_outbox.operations.prune_by_offset import OffsetProofSource, Snapshot, offset_pruning
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import MariaDb, MariaDbDsn, Stack
from cdc_outbox.testing.mariadb import make_mariadb
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually, open_folder

NAME = "mariadb_orders"
ARCHIVE = TableName(schema=None, name="archived", dialect=Dialect.MYSQL)
SPEC = f"""\
version: 1
name: {NAME}
database: {{kind: mariadb, host: h, name: {NAME}, user: connector, password: "${{env:CONNECTOR_PASSWORD}}"}}
aggregates: {{order: {{}}}}
"""
PASSWORD = "reads-the-binlog"
"""A word of no sentence: it is taken out of whatever is said of any connector beside this one."""
USERS = f"""
create user connector identified by '{PASSWORD}';
grant select, reload, show databases, replication slave, replication slave admin, binlog monitor on *.* to connector;
create user pruner identified by 'pruner';
grant process, binlog monitor on *.* to pruner;
grant select, delete on {NAME}.outbox to pruner;
grant create, insert on {NAME}.archived to pruner
"""


def config(server: MariaDb) -> dict[str, str]:
    return render(parse_spec(SPEC)) | {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.password": PASSWORD,
        "snapshot.mode": "initial",
        "heartbeat.interval.ms": "200",
        # The server says that it is idle at 0.8 of this; where it is late, the connector logs in again and again.
        "connect.keep.alive.interval.ms": "2000",
    }


@dataclass
class Orders:
    """An outbox on a MariaDB server of its own, so with a binlog of its own, and the connector that publishes it."""

    stack: Stack
    server: MariaDb
    dsn: MariaDbDsn
    reports: list[str] = field(default_factory=list)
    written: int = 0

    @property
    def spec(self) -> Spec:
        return parse_spec(SPEC)

    @property
    def client(self) -> ConnectClient:
        return ConnectClient(self.stack.connect_cluster)

    @property
    def pruner(self) -> MariaDbDsn:
        return replace(self.dsn, user="pruner", password="pruner")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            connection.commit()
            return list(cursor.fetchall())

    @contextmanager
    def connect(self) -> Iterator[Any]:
        with closing(connect_pymysql(self.dsn)) as connection:
            yield connection

    @property
    def rows(self) -> int:
        return int(self.query("select count(*) from outbox")[0][0])

    def make_tables(self) -> None:
        component = outbox_component(OutboxTable(), first_source=self.spec.first_source, dialect=Dialect.MYSQL)
        with self.connect() as connection:
            upgrade(lambda sql: PyMySql("pymysql").fetch(connection, sql), component)

    def add(self, connection: Any, aggregate_id: str = "1") -> None:
        event = Event(aggregate_type="order", aggregate_id=aggregate_id, type="OrderPlaced", payload={})
        Outbox(spec=self.spec).add(connection, event)

    def write(self, count: int) -> None:
        with self.connect() as connection:
            for _ in range(count):
                self.add(connection)
                connection.commit()
        self.written += count

    def run(
        self,
        *,
        dry: bool = False,
        on_report: Callable[[str], None] | None = None,
        dsn: MariaDbDsn | None = None,
        client: ConnectClient | None = None,
        topics: bool = False,
        **options: Any,
    ) -> Pruned[Any]:
        self.reports.clear()

        def report(step: str, text: str) -> None:
            self.reports.append(f"{step}: {text}")
            if on_report is not None:
                on_report(step)

        url = (dsn or self.pruner).url("mysql").partition("?")[0]
        servers = self.stack.broker.bootstrap_servers
        with ExitStack() as stack:
            one, other = (stack.enter_context(closing(connect(url))) for _ in range(2))
            comparison = None
            if topics:
                settings = consumer_settings(bootstrap_servers=servers, group="pruner", extra={})
                comparison = TopicComparison(self.spec.contract, stack.enter_context(TopicReader.opened(settings)))
            pruning = offset_pruning(
                self.spec,
                (one, other),
                PyMySql("pymysql"),
                client=client or self.client,
                options=PruneOptions(**({"wait_seconds": 30.0} | options)),
                report=report,
                comparison=comparison,
            )
            return pruning.dry_run() if dry else pruning.run()

    def reader(self) -> str:
        """Return who reads, as a run would see it."""
        with self.connect() as connection:
            session = OpenDatabase(connection, PyMySql("pymysql"), self.spec.outbox.names(Dialect.MYSQL))
            return OffsetProofSource(self.spec, self.client, session, Snapshot(session)).find_delivery().reader

    def patch_offset(self, **changes: object) -> None:
        """Change by hand what only the product should change."""
        [entry] = self.client.find_offsets(NAME)
        self.client.alter_offsets(NAME, [entry | {"offset": entry["offset"] | changes}])

    def messages(self) -> int:
        return len(self.stack.broker.messages("outbox.event.order"))

    def wait_for_messages(self) -> None:
        eventually(lambda: self.messages() >= self.written, f"{self.written} messages")

    def halt(self) -> None:
        self.client.stop(NAME)
        eventually(lambda: self.client.find_status(NAME).state == "STOPPED", "the connector to stop")

    def go_on(self) -> None:
        """Start the halted connector, and wait until it reads."""
        before = self.dumps()
        self.client.resume(NAME)
        # The server may not have noticed yet that nobody reads on an old connection.
        eventually(lambda: self.dumps() - before, "the connector to read the binlog", seconds=60)
        self.wait_until_reading()

    def dumps(self) -> set[int]:
        """Return the connections on which the binlog is read."""
        query = "select id from information_schema.processlist where command like 'Binlog Dump%'"
        return {int(number) for (number,) in self.query(query)}

    def wait_until_reading(self) -> None:
        eventually(self.is_reading, "the connector to read, and to store an offset", seconds=60)

    def is_reading(self) -> bool:
        try:
            status, offsets = self.client.find_status(NAME), self.client.find_offsets(NAME)
        except PASSING:
            return False
        return condition_of(status) is Condition.UP and bool(offsets) and "snapshot" not in offsets[0]["offset"]


@contextmanager
def running_orders(stack: Stack) -> Iterator[Orders]:
    """Make the server, the outbox with two rows, and the connector, and wait until it reads."""
    with open_folder() as folder:
        server = make_mariadb(folder / "mariadb", stack.folder.reserve_port())
        server.start()
        try:
            orders = Orders(stack, server, server.create_database(NAME))
            orders.make_tables()
            for statement in USERS.split(";"):
                orders.query(statement)
            orders.write(2)  # before the connector: its snapshot publishes them
            orders.client.create_stopped(config(server))
            orders.client.reset_offsets(NAME)  # those of an earlier one, on another server
            orders.go_on()
            yield orders
            orders.client.delete(NAME)
        finally:
            server.stop()
