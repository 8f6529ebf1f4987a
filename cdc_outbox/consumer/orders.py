"""What the events of each aggregate type promise about their order, as a contract and a consumer's options say it."""

from collections.abc import Collection, Mapping

from cdc_outbox.consumer.ordering import Order
from cdc_outbox.errors import ConfigError
from cdc_outbox.event import SequenceMode
from cdc_outbox.wire import WireContract


def orders_of(contract: WireContract, latest: Collection[str], by_watermark: Collection[str]) -> Mapping[str, Order]:
    """Return the order of each aggregate type of a contract.

    Raises:
        ConfigError: Something is to be told by the sequence of events that have none.
    """
    for field, names in (("latest", latest), ("by_watermark", by_watermark)):
        for name in names:
            if contract.mode_of(name) is SequenceMode.NONE:
                raise ConfigError(
                    f"the events of {name} are not numbered, so nothing tells which is the later one",
                    field=f"Consumer.{field}",
                )
    return {
        name: Order(mode=mode, latest=name in latest, by_watermark=name in by_watermark)
        for name, mode in contract.aggregates.items()
    }
