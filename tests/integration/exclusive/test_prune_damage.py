"""What was left out is not pruned, though the slot passed it; what was published again is."""

from collections.abc import Iterator, Mapping

import pytest

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.render import render
from cdc_outbox.debezium.slot_plan import EarlierEvents, stored_offset
from cdc_outbox.errors import UnprovenDeliveryError
from cdc_outbox.message import Message
from tests.support.pipeline import Pipeline
from tests.support.pruning import WEEK, Pruner
from tests.support.rig import eventually
from tests.support.service import Service

DAMAGES = {
    "DB402": ("drop table outbox", "add table outbox"),
    "DB403": ("set (publish = 'update')", "set (publish = 'insert')"),
    "DB404": ("set table outbox where (false)", "set table outbox"),
}
"""Code of the finding → what somebody does to the publication, and how it is undone."""


def stored_lsn(pipeline: Pipeline) -> Lsn:
    stored = stored_offset(pipeline.client.find_offsets(pipeline.name), topic_prefix=pipeline.spec.topic_prefix)
    assert stored
    return stored.lsn


def assert_kept_until_republished(pruner: Pruner, lost: int) -> None:
    """Hold that a run names the lost events and deletes nothing, and that its remedy lets the next one delete all."""
    rows = pruner.rows
    for dry in (True, False):
        with pytest.raises(UnprovenDeliveryError, match=f"{lost} events are not in the topics") as caught:
            pruner.run(topics=True, dry=dry)
        assert "--earlier-events republish" in caught.value.hint
    assert pruner.rows == rows
    pruner.pipeline.deploy(spec=pruner.spec, earlier=EarlierEvents.REPUBLISH, stable_seconds=0)
    assert pruner.run(topics=True).deleted == rows
    sent = {dict(message.headers)["id"] for message in pruner.pipeline.messages()}
    assert len(sent) == rows


@pytest.mark.parametrize("code", DAMAGES)
def test_what_a_publication_left_out_stays(pruner: Pruner, pipeline: Pipeline, code: str) -> None:
    damage, fix = DAMAGES[code]
    alter = f"alter publication {pipeline.spec.database.publication}"
    pipeline.write(2, "before")
    pruner.wait_for_messages(2)
    pruner.execute(f"{alter} {damage}")
    pipeline.write(5, "lost")
    for topics in (True, False):
        with pytest.raises(UnprovenDeliveryError, match=code):
            pruner.run(topics=topics)
    pruner.execute(f"{alter} {fix}")
    pipeline.write(1, "after")
    pruner.wait_for_messages(3)
    with pytest.raises(UnprovenDeliveryError, match="older than the last change of the publication"):
        pruner.run()
    assert_kept_until_republished(pruner, 5)


def test_a_column_list_and_a_table_in_the_place_of_the_published_one_are_refused(
    pruner: Pruner, pipeline: Pipeline
) -> None:
    pipeline.write(2)
    pruner.wait_for_messages(2)
    # With such a list the connector fails at the next row: a heartbeat too, and the first one comes soon.
    eventually(lambda: pipeline.stack.broker.ends(pipeline.spec.heartbeat_topic or ""), "the first heartbeat")
    alter = f"alter publication {pipeline.spec.database.publication} set table outbox"
    pruner.execute(f"{alter} (id, aggregatetype, aggregateid)")
    with pytest.raises(UnprovenDeliveryError, match="DB405"):
        pruner.run()
    assert pruner.rows == 2
    pruner.execute(alter)
    assert pruner.run(topics=True).deleted == 2
    pruner.execute("alter table outbox rename to former; create table outbox (like former including all)")
    pipeline.write(3)
    with pytest.raises(UnprovenDeliveryError, match="DB402"):
        pruner.run()
    assert pruner.rows == 3


def test_what_a_slot_was_moved_over_stays(pruner: Pruner, pipeline: Pipeline) -> None:
    with pipeline.keep_log():
        pipeline.write(2, "before")
        pruner.wait_for_messages(2)
        pruner.halt()
        pipeline.write(5, "lost")
        pruner.query("select pg_replication_slot_advance(%s, pg_current_wal_lsn())::text", pruner.spec.database.slot)
    with pytest.raises(UnprovenDeliveryError, match="ahead of Connect's offset"):
        pruner.run(topics=True)
    # The connector runs on, and nothing but the topic tells.
    pipeline.client.resume(pipeline.name)
    eventually(lambda: pipeline.write(1, "after") and len(pipeline.messages()) > 2, "the connector to go on")
    pruner.wait_for_messages(pruner.rows - 5)
    eventually(lambda: stored_lsn(pipeline) >= pruner.confirmed(), "Connect's offset to pass the slot")
    assert_kept_until_republished(pruner, 5)


def test_what_another_list_of_tables_left_out_stays(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(2, "before")
    pruner.wait_for_messages(2)
    pruner.halt()
    config = render(pruner.spec)
    pipeline.client.put_config(config | {"table.include.list": "public[.]other"})
    with pytest.raises(UnprovenDeliveryError, match="does not read public"):
        pruner.run(topics=True)
    pipeline.client.resume(pipeline.name)
    pipeline.write(5, "lost")
    passed = Lsn.parse(pruner.query("select pg_current_wal_lsn()::text"))
    eventually(lambda: pruner.confirmed() >= passed, "the slot to pass them")
    pruner.halt()
    pipeline.client.put_config(config)
    pipeline.client.resume(pipeline.name)
    pipeline.write(1, "after")
    pruner.wait_for_messages(3)
    assert_kept_until_republished(pruner, 5)


def test_an_event_whose_number_another_one_had_goes_once_it_is_published(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(3)
    pruner.wait_for_messages(3)
    pruner.execute("delete from outbox; update outbox_heads set last = 1")  # as a restore does
    pipeline.write(4)
    pruner.wait_for_messages(7)
    assert pruner.run(topics=True).deleted == 4


def test_a_message_is_read_once(pruner: Pruner, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    read, counts = TopicReader.read, list[int]()

    def count(reader: TopicReader, spans: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
        counts.append(sum(end - start for start, end in spans.values()))
        return read(reader, spans)

    monkeypatch.setattr(TopicReader, "read", count)
    for written in (5, 3):
        pipeline.write(written)
        # What comes while a run waits is read again by the next one.
        eventually(lambda: len(pipeline.messages()) == pruner.rows, "the messages")
        assert pruner.run(topics=True, keep_seconds=WEEK).young == pruner.rows
    pruner.execute("update outbox_checkpoints set reader = 'another'")  # what was found there stays found
    assert pruner.run(topics=True).deleted == 8
    assert counts == [5, 3, 0]


XMAX = "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


@pytest.mark.parametrize(
    "changes",
    [f"oldest = {XMAX} + 1000000", f"oldest = {XMAX}, system = '1'"],
    ids=["whose transactions are to come", "whose transactions would have been"],
)
def test_marks_that_a_dump_brings_from_another_server_prove_nothing(
    pruner: Pruner, pipeline: Pipeline, changes: str
) -> None:
    pipeline.write(5)
    pruner.wait_for_messages(5)
    assert pruner.run(topics=True, keep_seconds=WEEK).young == 5
    pruner.execute(f"update outbox_checkpoints set {changes}")  # noqa: S608 - our own words
    pipeline.delete_first_messages(3)
    with pytest.raises(UnprovenDeliveryError, match="3 events are not in the topics"):
        pruner.run(topics=True)
    assert pruner.rows == 5


def test_what_a_consumer_applied_counts_where_the_topic_forgets(service: Service) -> None:
    pipeline = service.pipeline
    pruner = Pruner(pipeline)
    pipeline.write(5)
    pruner.wait_for_messages(5)
    service.consume(5)
    pipeline.delete_first_messages(3)
    with pytest.raises(UnprovenDeliveryError, match="3 events are not in the topics") as caught:
        pruner.run(topics=True)
    assert "--consumer" in caught.value.hint
    assert pruner.run(topics=True, consumer=service.name).deleted == 5
