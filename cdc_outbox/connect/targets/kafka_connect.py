"""Kafka Connect's REST API: one flat object, which ``PUT /connectors/NAME/config`` takes."""

import json
from collections.abc import Mapping

from cdc_outbox.connect.targets.model import Pipeline, Target


def _render(pipeline: Pipeline, _settings: Mapping[str, str]) -> str:
    config = {
        "name": pipeline.name,
        "connector.class": pipeline.connector_class,
        "tasks.max": str(pipeline.tasks),
        **{option.name: option.value for option in pipeline.options},
    }
    return json.dumps(config, indent=2, ensure_ascii=False)


KAFKA_CONNECT = Target(name="kafka-connect", settings={}, render=_render)
