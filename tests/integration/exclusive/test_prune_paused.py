"""What is deleted while the Connect worker is halted or killed; afterwards rows and messages are counted."""

from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.pruning import WEEK, Pruner, add
from tests.support.rig import Connection, eventually
from tests.support.threads import Threads


def test_nothing_goes_that_the_slot_has_not_confirmed(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(5)
    assert pruner.run().deleted == 5
    worker = pipeline.stack.workers[0]
    worker.pause()  # it goes on to read its slot, and confirms nothing
    try:
        pipeline.write(7)
        pruned = pruner.run(wait_seconds=1)
        assert (pruned.deleted, pruner.rows) == (0, 7)
        assert "before the checkpoint" in pruned.verdict.held_back
        assert any(report.startswith("wait: up to 1 s for the slot to pass ") for report in pruner.reports)
    finally:
        worker.resume()
    pruner.wait_for_messages(12)
    assert pruner.run().deleted == 7
    assert pruner.rows == 0


def test_an_open_transaction_keeps_what_it_wrote_until_that_was_delivered(
    pruner: Pruner, pipeline: Pipeline, writer: Connection
) -> None:
    pipeline.write(5, "before")
    with writer.transaction():  # a savepoint has a number of its own, which is younger than its transaction's
        add(pipeline, writer, "slow")
        with writer.transaction():
            add(pipeline, writer, "slow savepoint")
        pipeline.write(3, "meanwhile")
        pruned = pruner.run()
        assert (pruned.deleted, pruned.unproven, pruner.rows) == (5, 3, 3)
        runs = f"(process {writer.info.backend_pid}, database {pipeline.name}) has been running since"
        assert any(runs in report for report in pruner.reports)
        worker = pipeline.stack.workers[0]
        worker.pause()
    try:
        # They were committed behind the checkpoint that the slot has passed, and are in no message yet.
        pruned = pruner.run(wait_seconds=0)
        assert pruned.verdict.checkpoint is not None
        assert (pruned.deleted, pruned.unproven, pruner.rows) == (0, 5, 5)
    finally:
        worker.resume()
    pruner.wait_for_messages(10)
    assert pruner.run(wait_seconds=100).deleted == 5


def test_age_keeps_what_was_delivered_and_proves_nothing(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(5)
    pruner.execute("update outbox set created_at = created_at - interval '8 days' where sequence <= 3")
    pruned = pruner.run(keep_seconds=WEEK)
    assert (pruned.deleted, pruned.young, pruned.unproven, pruner.rows) == (3, 2, 0, 2)
    worker = pipeline.stack.workers[0]
    worker.pause()
    try:
        pipeline.write(2)
        pruner.execute("update outbox set created_at = created_at - interval '8 days'")
        assert (pruner.run(keep_seconds=WEEK, wait_seconds=1).deleted, pruner.rows) == (0, 4)
    finally:
        worker.resume()
    assert pruner.run(keep_seconds=WEEK, wait_seconds=100).deleted == 4
    pruner.wait_for_messages(7)


def test_a_connector_that_is_started_anew_meanwhile_is_waited_for(pruner: Pruner, pipeline: Pipeline) -> None:
    worker = pipeline.stack.workers[0]
    worker.pause()
    pipeline.write(5)
    with Threads(1) as pool:
        run = pool.submit(pruner.run, wait_seconds=100)
        eventually(lambda: any(report.startswith("wait") for report in pruner.reports), "the run to wait")
        worker.kill()
        worker.start()
        assert run.result(patience(100)).deleted == 5
    pruner.wait_for_messages(5)
