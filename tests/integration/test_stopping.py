"""How a consumer ends, and begins again."""

from tests.support.rig import eventually
from tests.support.service import Service


def test_a_consumer_that_was_stopped_can_run_again(service: Service) -> None:
    consumer = service.consumer()
    for count in (1, 2):
        service.pipeline.write(1)
        service.consume(count, consumer)


def test_a_stop_that_comes_before_the_run_ends_it(service: Service) -> None:
    consumer = service.consumer()
    consumer.stop()
    consumer.run()
    assert service.effects() == []


def test_the_newer_group_protocol_does_as_well(service: Service) -> None:
    service.pipeline.write(3)
    with service.running(service.consumer(kafka_settings={"group.protocol": "consumer"})):
        eventually(lambda: len(service.effects()) == 3, "three effects")
