"""Where a pipeline's configuration goes. A further place is one file beside these, and one line in ``TARGETS``."""

from collections.abc import Mapping

from cdc_outbox.debezium.render.options import RenderedOption
from cdc_outbox.debezium.render.targets.model import Pipeline, Target, chosen, pipeline_of
from cdc_outbox.debezium.render.targets.strimzi import STRIMZI
from cdc_outbox.redaction import safe_json

__all__ = ["TARGETS", "Pipeline", "RenderedOption", "Target", "chosen", "pipeline_of"]


def _render(pipeline: Pipeline, _settings: Mapping[str, str]) -> str:
    config = {
        "name": pipeline.name,
        "connector.class": pipeline.connector_class,
        "tasks.max": str(pipeline.tasks),
        **{option.name: option.value for option in pipeline.options},
    }
    return safe_json(config, indent=2)


KAFKA_CONNECT = Target(name="kafka-connect", settings={}, render=_render)

TARGETS: Mapping[str, Target] = {target.name: target for target in (KAFKA_CONNECT, STRIMZI)}
"""Every target by its name."""
