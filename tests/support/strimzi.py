"""What Strimzi's API v1 takes as a KafkaConnector and a KafkaTopic, and nothing beside it.

The facts are those of `io.strimzi:api` on Maven Central in the release below: its classes are what Strimzi's CRDs are
generated from, and tests/vendor/test_strimzi_api.py reads them again. What any resource's metadata may be is
Kubernetes' own. `config` takes any value there; all of ours are texts.
"""

from typing import Any

from jsonschema import Draft202012Validator

RELEASE = "1.2.0"
"""The newest on Maven Central when this was written."""

FORBIDDEN = ["name", "connector.class", "tasks.max", "connector.plugin.version"]
"""What may not stand in a connector's config, because it has a place of its own."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = {"type": "string", "maxLength": 253, "pattern": rf"^{_LABEL}(\.{_LABEL})*$"}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}

SPECS: dict[str, dict[str, dict[str, Any]]] = {
    "KafkaConnector": {
        "class": {"type": "string"},
        "tasksMax": {"type": "integer", "minimum": 1},
        "autoRestart": {"type": "object"},
        "version": {"type": "string"},
        "config": {**_TEXTS, "propertyNames": {"not": {"enum": FORBIDDEN}}},
        "state": {"enum": ["paused", "stopped", "running"]},
        "listOffsets": {"type": "object"},
        "alterOffsets": {"type": "object"},
    },
    "KafkaTopic": {
        "topicName": {"type": "string"},
        "partitions": {"type": "integer", "minimum": 1},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 32767},
        "config": _TEXTS,
    },
}
"""The fields of each kind's spec."""


def check(resource: dict[str, Any]) -> None:
    """Refuse a KafkaConnector or KafkaTopic that Kubernetes would refuse, or of which it would drop a field.

    Raises:
        jsonschema.ValidationError: It is none, with the place.
    """
    labels = {"type": "object", "required": ["strimzi.io/cluster"], "additionalProperties": {"maxLength": 63}}
    metadata = {"name": _NAME, "namespace": {"type": "string", "pattern": f"^{_LABEL}$"}, "labels": labels}
    schema = _object(
        {
            "apiVersion": {"const": "kafka.strimzi.io/v1"},
            "kind": {"enum": list(SPECS)},
            "metadata": _object(metadata, "name", "labels"),
            "spec": _object(SPECS[resource["kind"]]),
        },
        *("apiVersion", "kind", "metadata", "spec"),
    )
    Draft202012Validator(schema).validate(resource)


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
