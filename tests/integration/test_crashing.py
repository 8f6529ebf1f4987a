"""An event whose handler takes the process with it is found, given up, and the others go on."""

import signal
from dataclasses import replace

from cdc_outbox.consumer.loop import _MAX_STARTS
from cdc_outbox.consumer.ownership import _SUSPECT_TENURES
from tests.support.desk import Desk, numbered, placed
from tests.support.desk_service import serving
from tests.support.rig import apply_effect, eventually

STATIC = {"kafka": {"group.instance.id": "one"}}
"""Who comes back under its own name gets its partitions at once, and not after the dead one's session."""


def test_an_event_that_kills_its_process_is_dead_after_a_few_starts_and_others_are_applied(desk: Desk) -> None:
    desk.send(*(placed(number) for number in range(1, 6)))
    # Else the first few that die would get some of these done, each, and begin to count anew.
    with desk.running(desk.consumer()):
        desk.wait_for_effects(*numbered(5))
    desk.send(placed(6, event_type="Kills"), placed(7), *(placed(number, "other") for number in range(1, 6)))
    killed = 0
    while not desk.parked():
        with serving(desk, **STATIC) as process:
            eventually(lambda: process.poll() is not None or desk.parked(), "a death, or its end")
            killed += process.poll() == 9
            if desk.parked():
                desk.wait_for_effects(*numbered(5), *numbered(5, "other"))
                desk.wait_for_parked((6, "dead", "crashed"), (7, "waiting", "gap"))
                process.send_signal(signal.SIGTERM)
                assert process.wait(20) == 0
    assert killed <= _SUSPECT_TENURES + _MAX_STARTS
    assert killed >= _MAX_STARTS
    [(error,)] = desk.rows("select error from inbox_parked where reason = 'crashed'")
    assert "its handler may kill the process" in error
    assert desk.rows("select count(*) from inbox_starts") == [(0,)]


def test_a_consumer_that_dies_of_something_else_gives_nothing_up(desk: Desk) -> None:
    """Killed from outside again and again, it makes progress in between, so nothing is suspect."""
    applied = 0
    for _ in range(_SUSPECT_TENURES + 2):
        with serving(desk, **STATIC) as process:
            desk.send(*(placed(number) for number in range(applied + 1, applied + 4)))
            applied += 3
            desk.wait_for_effects(*numbered(applied))
            process.kill()
    consumer = desk.consumer()
    consumer.on("Kills")(apply_effect)
    desk.send(placed(applied + 1, event_type="Kills"))
    desk.consume(applied + 1, consumer)
    assert desk.parked() == []
    assert desk.rows("select count(*) from inbox_starts") == [(0,)]


def test_an_id_that_no_inbox_can_take_is_parked_and_ends_no_consumer_that_goes_carefully(desk: Desk) -> None:
    with desk.pipeline.connect() as connection:
        connection.execute(
            """insert into inbox_epochs (consumer, topic, "partition", epoch, unfinished) values (%s, %s, 0, 1, %s)""",
            (desk.name, desk.pipeline.topic, _SUSPECT_TENURES),
        )
    desk.send(*(replace(placed(1), id=event_id) for event_id in ("i\0", "i" * 3000)), placed(1))
    with desk.running():
        desk.wait_for_effects(*numbered(1))
        desk.wait_for_parked(*[(None, "dead", "unreadable")] * 2)
    assert desk.rows("select count(*) from inbox_starts") == [(0,)]
