"""An event whose handler takes the process with it is found, given up, and the others go on."""

import signal
from dataclasses import replace

from cdc_outbox.consumer.fencing import _SUSPECT_ASSIGNMENTS
from cdc_outbox.consumer.loop import _MAX_STARTS
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.rig import eventually
from tests.support.service import Service, apply_effect, effects_of
from tests.support.service_process import running_process

STATIC = {"kafka": {"group.instance.id": "one"}}
"""Who comes back under its own name gets its partitions at once, and not after the dead one's session."""


def test_an_event_that_kills_its_process_is_dead_after_a_few_starts_and_others_are_applied(
    fed_service: Service,
) -> None:
    fed_service.send(*(make_event(number) for number in range(1, 6)))
    # Else the first few that die would get some of these done, each, and begin to count anew.
    with fed_service.running(fed_service.consumer()):
        fed_service.wait_for_effects(*effects_of(5))
    fed_service.send(
        make_event(6, event_type="Kills"), make_event(7), *(make_event(number, "other") for number in range(1, 6))
    )
    killed = 0
    while not fed_service.parked():
        with running_process(fed_service, **STATIC) as process:
            eventually(lambda: process.poll() is not None or fed_service.parked(), "a death, or its end")
            killed += process.poll() == 9
            if fed_service.parked():
                fed_service.wait_for_effects(*effects_of(5), *effects_of(5, "other"))
                fed_service.wait_for_parked((6, "dead", "crashed"), (7, "waiting", "gap"))
                process.send_signal(signal.SIGTERM)
                assert process.wait(patience()) == 0
    assert killed <= _SUSPECT_ASSIGNMENTS + _MAX_STARTS
    assert killed >= _MAX_STARTS
    [(error,)] = fed_service.rows("select error from inbox_parked where reason = 'crashed'")
    assert "its handler may crash the process" in error
    assert fed_service.rows("select count(*) from inbox_starts") == [(0,)]


def test_a_consumer_that_dies_of_something_else_gives_nothing_up(fed_service: Service) -> None:
    """Killed from outside again and again, it makes progress in between, so nothing is suspect."""
    applied = 0
    for _ in range(_SUSPECT_ASSIGNMENTS + 2):
        with running_process(fed_service, **STATIC) as process:
            fed_service.send(*(make_event(number) for number in range(applied + 1, applied + 4)))
            applied += 3
            fed_service.wait_for_effects(*effects_of(applied))
            process.kill()
    consumer = fed_service.consumer()
    consumer.on("Kills")(apply_effect)
    fed_service.send(make_event(applied + 1, event_type="Kills"))
    fed_service.consume(applied + 1, consumer)
    assert fed_service.parked() == []
    assert fed_service.rows("select count(*) from inbox_starts") == [(0,)]


def test_an_id_that_no_inbox_can_take_is_parked_and_ends_no_consumer_that_goes_carefully(fed_service: Service) -> None:
    with fed_service.connect() as connection:
        connection.execute(
            """insert into inbox_epochs (consumer, topic, "partition", epoch, unfinished) values (%s, %s, 0, 1, %s)""",
            (fed_service.name, fed_service.pipeline.topic, _SUSPECT_ASSIGNMENTS),
        )
    fed_service.send(*(replace(make_event(1), id=event_id) for event_id in ("i\0", "i" * 3000)), make_event(1))
    with fed_service.running():
        fed_service.wait_for_effects(*effects_of(1))
        fed_service.wait_for_parked(*[(None, "dead", "unreadable")] * 2)
    assert fed_service.rows("select count(*) from inbox_starts") == [(0,)]
