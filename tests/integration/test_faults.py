"""Parts of the real stack die, and afterwards the database and the topic are counted."""

from concurrent.futures import ThreadPoolExecutor

from cdc_outbox.connect.wait import Condition, condition_of
from tests.rig import Shop, eventually


def committed(shop: Shop) -> list[tuple[str, int]]:
    with shop.pipeline.connect() as connection:
        return connection.execute("select aggregateid, sequence from outbox order by 1, 2").fetchall()


def assert_effects_once_and_in_order(shop: Shop) -> None:
    effects = shop.effects()
    assert sorted(effects) == committed(shop)
    for aggregate_id in {found for found, _ in effects}:
        numbers = [number for found, number in effects if found == aggregate_id]
        assert numbers == list(range(1, len(numbers) + 1))


def write_from_four_threads(shop: Shop, each: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda aggregate_id: shop.pipeline.write(each, aggregate_id), "abcd"))


def test_a_killed_connect_worker_loses_nothing_and_repeats_have_no_effect(shop: Shop) -> None:
    worker = shop.pipeline.stack.workers[0]
    with shop.running(), ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_from_four_threads, shop, 150)
        eventually(lambda: len(shop.effects()) > 50, "the stream to run")
        worker.kill()
        in_flight = len(committed(shop)) - len(shop.pipeline.messages())
        assert in_flight >= 0
        worker.start()
        writing.result()
        eventually(lambda: len(shop.effects()) == 600, "600 effects", seconds=60)
    assert_effects_once_and_in_order(shop)
    client = shop.pipeline.client
    eventually(lambda: condition_of(client.find_status(shop.pipeline.name)) is Condition.UP, "the connector to run")


def test_a_database_server_that_crashes_is_waited_for(shop: Shop) -> None:
    server = shop.pipeline.stack.postgres
    shop.pipeline.write(20)
    with shop.running():
        eventually(lambda: len(shop.effects()) > 5, "the consumer to run")
        server.kill()
        server.start()
        shop.pipeline.write(20)
        eventually(lambda: len(shop.effects()) == 40, "40 effects", seconds=60)
    assert_effects_once_and_in_order(shop)


def test_a_broker_that_is_killed_is_waited_for(shop: Shop) -> None:
    server = shop.pipeline.stack.broker
    shop.pipeline.write(10)
    with shop.running():
        eventually(lambda: len(shop.effects()) == 10, "the consumer to run")
        server.kill()
        shop.pipeline.write(10)
        server.start()
        eventually(lambda: len(shop.effects()) == 20, "20 effects", seconds=60)
    assert_effects_once_and_in_order(shop)


def test_a_paused_worker_is_overtaken_by_a_second_one_and_no_effect_is_doubled(shop: Shop) -> None:
    stack = shop.pipeline.stack
    first = stack.workers[0]
    second = stack.add_worker()
    try:
        with shop.running():
            shop.pipeline.write(20)
            eventually(lambda: len(shop.effects()) == 20, "20 effects", seconds=60)
            first.pause()
            shop.pipeline.write(20)
            eventually(lambda: len(shop.effects()) == 40, "40 effects through the second worker", seconds=90)
            first.resume()
            shop.pipeline.write(20)
            eventually(lambda: len(shop.effects()) == 60, "60 effects", seconds=90)
        assert_effects_once_and_in_order(shop)
    finally:
        first.resume()
        second.stop()
        stack.workers.pop()
