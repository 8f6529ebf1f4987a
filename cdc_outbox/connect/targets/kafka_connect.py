"""Kafka Connect's REST API: one flat object, which ``PUT /connectors/NAME/config`` takes."""

from collections.abc import Mapping

from cdc_outbox.connect.targets.model import Pipeline, Target
from cdc_outbox.safe_text import safe_json


def _render(pipeline: Pipeline, _settings: Mapping[str, str]) -> str:
    config = {
        "name": pipeline.name,
        "connector.class": pipeline.connector_class,
        "tasks.max": str(pipeline.tasks),
        **{option.name: option.value for option in pipeline.options},
    }
    return safe_json(config, indent=2)


KAFKA_CONNECT = Target(name="kafka-connect", settings={}, render=_render)
