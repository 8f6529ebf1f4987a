"""Where a pipeline's configuration goes. A further place is one file beside these, and one line in ``TARGETS``."""

from collections.abc import Mapping

from cdc_outbox.connect.targets.kafka_connect import KAFKA_CONNECT
from cdc_outbox.connect.targets.model import Option, Pipeline, Target, chosen, pipeline_of
from cdc_outbox.connect.targets.strimzi import STRIMZI

__all__ = ["TARGETS", "Option", "Pipeline", "Target", "chosen", "pipeline_of"]

TARGETS: Mapping[str, Target] = {target.name: target for target in (KAFKA_CONNECT, STRIMZI)}
"""Every target by its name."""
