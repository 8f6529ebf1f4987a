"""The consumer of a history as `replay` imports it: ``tests.faults.replayed:consumer``."""

import os
from pathlib import Path

import psycopg

from cdc_outbox.consumer import Consumer
from cdc_outbox.spec import parse_spec
from tests.support.service import QUICK, apply_effect

consumer = Consumer(
    name=os.environ["CDC_OUTBOX_CONSUMER"],
    contract=parse_spec(Path(os.environ["SPEC"]).read_text()).contract,
    kafka={"bootstrap.servers": os.environ["CDC_OUTBOX_BOOTSTRAP_SERVERS"], **QUICK},
    database=lambda: psycopg.connect(os.environ["CDC_OUTBOX_INBOX_DSN"]),
)
consumer.on("OrderPlaced")(apply_effect)
