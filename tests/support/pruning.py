"""A pipeline's outbox that is pruned, and what is asked of it."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import psycopg

from cdc_outbox import Event, Outbox
from cdc_outbox.consumer.inbox_tables import InboxTable
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.table import TableName
from cdc_outbox.kafka.clients import consumer_settings
from cdc_outbox.operations.comparison import TopicComparison
from cdc_outbox.operations.connections import OpenInbox
from cdc_outbox.operations.prune import Pruned, PruneOptions
from cdc_outbox.operations.prune_by_slot import slot_pruning
from cdc_outbox.operations.stages import InboxStage
from cdc_outbox.spec import Spec
from tests.support.pipeline import Pipeline
from tests.support.rig import Connection, eventually, one

ARCHIVE = TableName(schema="public", name="archived")
WEEK = 7 * 86_400


class Pruner:
    """Prunes a pipeline's outbox, whose slot soon advances without new events."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.reports: list[str] = []
        # The default of 10 ms between two looks at the log is most of what an idle connector costs.
        self.spec = replace(pipeline.spec, overrides={"heartbeat.interval.ms": "300", "poll.interval.ms": "100"})
        self.pipeline.deploy(spec=self.spec, stable_seconds=0)

    def run(
        self,
        *,
        dry: bool = False,
        spec: Spec | None = None,
        dsn: str = "",
        topics: bool = False,
        consumer: str | None = None,
        **options: Any,
    ) -> Pruned[Lsn]:
        """Prune.

        Args:
            topics: Compare with the topics, and ask Connect too.
            consumer: Whose inbox in the same database counts.
        """
        with ExitStack() as stack:
            connection = stack.enter_context(psycopg.connect(dsn or self.pipeline.dsn, autocommit=True))
            comparison = None
            if topics:
                inbox = None
                if consumer is not None:
                    own = stack.enter_context(self.pipeline.connect())
                    inbox = InboxStage(OpenInbox(own, Psycopg(), table=InboxTable(), consumer=consumer))
                reader = stack.enter_context(TopicReader.opened(self.broker_settings()))
                comparison = TopicComparison(self.spec.contract, reader, inbox)
            wanted = PruneOptions(**({"wait_seconds": 30.0} | options))
            pruning = slot_pruning(
                spec or self.spec,
                connection,
                Psycopg(),
                wanted,
                lambda step, text: self.reports.append(f"{step}: {text}"),
                comparison=comparison,
                client=self.pipeline.client if topics else None,
            )
            return pruning.dry_run() if dry else pruning.run()

    def broker_settings(self) -> dict[str, Any]:
        return consumer_settings(
            bootstrap_servers=self.pipeline.stack.broker.bootstrap_servers, group="pruner", extra={}
        )

    def prove(self) -> None:
        """Let everything that is written now count as delivered, as the slot makes it count within seconds."""
        self.execute(
            f"""insert into outbox_checkpoints (slot, reader, position, oldest, taken_at)
            select slot_name, concat_ws(' ', pid, extract(epoch from backend_start)), '0/1',
                pg_snapshot_xmax(pg_current_snapshot())::text::bigint, clock_timestamp()
            from pg_replication_slots join pg_stat_activity on pid = active_pid
            where slot_name = '{self.spec.database.slot}'"""  # noqa: S608 - our own name
        )

    def query(self, sql: str, *parameters: object) -> Any:
        with self.pipeline.connect() as connection:
            return one(connection, sql, *parameters)

    def execute(self, sql: str) -> None:
        with self.pipeline.connect() as connection:
            connection.execute(sql.encode())

    @property
    def rows(self) -> int:
        return int(self.query("select count(*) from outbox"))

    def confirmed(self) -> Lsn:
        slot = self.spec.database.slot
        query = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
        return Lsn.parse(self.query(query, slot))

    def wait_for_messages(self, count: int) -> None:
        eventually(lambda: len(self.pipeline.messages()) >= count, f"{count} messages")
        assert len(self.pipeline.messages()) == count

    def halt(self) -> None:
        """Stop the connector, and wait until no process reads its slot."""
        self.pipeline.client.stop(self.pipeline.name)
        query = "select active from pg_replication_slots where slot_name = %s"
        eventually(lambda: not self.query(query, self.spec.database.slot), "the slot to be free")


def add(pipeline: Pipeline, connection: Connection, aggregate_id: str) -> None:
    event = Event(aggregate_type="order", aggregate_id=aggregate_id, type="OrderPlaced", payload={})
    Outbox(spec=pipeline.spec).add(connection, event)
