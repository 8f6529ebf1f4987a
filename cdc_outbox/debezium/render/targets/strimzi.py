"""Strimzi: resources of Kubernetes that its operators turn into a connector and topics (kafka.strimzi.io/v1)."""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import yaml

from cdc_outbox.contract.topics import Topic
from cdc_outbox.debezium.render.options import RenderedOption
from cdc_outbox.debezium.render.targets.model import Pipeline, Target
from cdc_outbox.errors import ConfigError
from cdc_outbox.redaction import REFERENCE, visible
from cdc_outbox.text_files.document import JsonValue

API_VERSION = "kafka.strimzi.io/v1"
TO_FILL_IN = "cdc-outbox/fill-in"
"""The annotation of a Secret that names the keys it must get."""
SETTINGS = {
    "connect": "the KafkaConnect resource that runs the connector",
    "kafka": "the Kafka resource that has the topics; without it, no KafkaTopic is written",
    "namespace": "the namespace of all resources; without it, the one in which they are applied",
    "secrets": "env, the default: the worker's variables contain the secrets; secrets: the worker reads them from a "
    "Secret itself",
}

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_KEY = re.compile(r"[-._A-Za-z0-9]{1,253}")
_LONGEST_NAME = 253
_VERSION = "connector.plugin.version"


class _Text(str):
    """What must be read as text again: not every reader of YAML takes the same words for numbers."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - yaml's
        return True


_Dumper.add_representer(_Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def _render(pipeline: Pipeline, settings: Mapping[str, str]) -> str:
    _refuse_settings(settings)
    _refuse_name(pipeline.name)
    _refuse_foreign_variables(pipeline)
    resources = [*_secrets(pipeline, settings), _connector(pipeline, settings)]
    if "kafka" in settings:
        resources += [_topic(topic, settings) for topic in pipeline.topics]
    written = yaml.dump_all(
        map(_quoted, resources), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000, explicit_start=True
    )
    return _comment(pipeline, settings) + written


def _quoted(value: object) -> JsonValue:
    match value:
        case str():
            return _Text(value)
        case list():
            return [_quoted(each) for each in value]
        case dict():
            return {key: _quoted(each) for key, each in value.items()}
    return value


def _refuse_settings(settings: Mapping[str, str]) -> None:
    if "connect" not in settings:
        hint = f"Add --target-option connect=NAME: {SETTINGS['connect']}."
        raise ConfigError(
            "a KafkaConnector must name the KafkaConnect that runs it", field="--target-option", hint=hint
        )
    for setting in ("connect", "kafka"):
        if setting in settings and not (_NAME.fullmatch(settings[setting]) and _LABEL.fullmatch(settings[setting])):
            raise ConfigError(
                f"{setting} must be a valid resource name", field="--target-option", hint=f"{SETTINGS[setting]}."
            )
    namespace = settings.get("namespace", "x")
    if not _NAME.fullmatch(namespace) or "." in namespace:
        raise ConfigError("namespace must be a valid namespace name", field="--target-option")
    if settings.get("secrets", "env") not in {"env", "secrets"}:
        raise ConfigError("secrets must be env or secrets", field="--target-option", hint=f"{SETTINGS['secrets']}.")
    if _reads_secrets(settings) and "namespace" not in settings:
        raise ConfigError(
            "a reference to a Secret must contain its namespace",
            field="--target-option",
            hint="Add --target-option namespace=NAME.",
        )


def _refuse_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"Strimzi uses the resource's name for the connector, but {name!r} is not a valid resource name",
            field="name",
            hint="Use lower-case letters, digits, dots and hyphens; the name of a running connector must not change.",
        )


def _refuse_foreign_variables(pipeline: Pipeline) -> None:
    for option in pipeline.options:
        if ("env", "CONNECT_BOOTSTRAP_SERVERS") in REFERENCE.findall(option.value):
            raise ConfigError(
                f"{option.name} refers to the worker's variable CONNECT_BOOTSTRAP_SERVERS, which Strimzi's image does "
                "not have",
                field="history.bootstrap_servers",
                hint="Set history.bootstrap_servers, for example to my-cluster-kafka-bootstrap:9092.",
            )


def _connector(pipeline: Pipeline, settings: Mapping[str, str]) -> dict[str, Any]:
    config = {option.name: _value(option, pipeline, settings) for option in pipeline.options}
    version = config.pop(_VERSION, None)
    spec = {"class": pipeline.connector_class, "tasksMax": pipeline.tasks}
    if version is not None:
        spec["version"] = version
    return {
        "apiVersion": API_VERSION,
        "kind": "KafkaConnector",
        "metadata": _metadata(pipeline.name, settings, settings["connect"]),
        "spec": {**spec, "config": config},
    }


def _value(option: RenderedOption, pipeline: Pipeline, settings: Mapping[str, str]) -> str:
    """Return what the worker gets; where it reads Secrets by itself, its variable becomes a Secret's key."""
    if not option.is_secret or not _reads_secrets(settings):
        return option.value
    location = f"{settings['namespace']}/{_secret_name(pipeline)}"
    return REFERENCE.sub(
        lambda found: f"${{secrets:{location}:{found[2]}}}" if found[1] == "env" else found[0], option.value
    )


def _secrets(pipeline: Pipeline, settings: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the Secret to be filled in, and who may read it; nothing where all is mounted or elsewhere already."""
    keys = _variables(pipeline)
    if not keys:
        return
    for key in keys:
        if not _KEY.fullmatch(key):
            raise ConfigError(f"a Secret cannot have the key {key!r}", field="overrides")
    name = _secret_name(pipeline)
    # Without keys of its own: applied again, it leaves alone what was filled in.
    metadata = {**_metadata(name, settings), "annotations": {TO_FILL_IN: ", ".join(keys)}}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    if not _reads_secrets(settings):
        return
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["get"]}
    group = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": f"{settings['connect']}-connect", "namespace": settings["namespace"]}
    yield {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": _metadata(name, settings), "rules": [rule]}
    yield {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(name, settings),
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [account],
    }


def _variables(pipeline: Pipeline) -> list[str]:
    found = {
        key
        for option in pipeline.options
        if option.is_secret
        for provider, key in REFERENCE.findall(option.value)
        if provider == "env"
    }
    return sorted(found)


def _topic(topic: Topic, settings: Mapping[str, str]) -> dict[str, Any]:
    name = topic.name
    spec: dict[str, Any] = {}
    if not _NAME.fullmatch(name):
        # Names that differ in what no resource's can have must not become the same one.
        readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[: _LONGEST_NAME - 9]
        name = f"{readable}-{sha256(name.encode()).hexdigest()[:8]}".lstrip("-")
        spec["topicName"] = topic.name
    spec["partitions"] = topic.partitions
    if topic.replication_factor != -1:
        spec["replicas"] = topic.replication_factor
    return {
        "apiVersion": API_VERSION,
        "kind": "KafkaTopic",
        "metadata": _metadata(name, settings, settings["kafka"]),
        "spec": {**spec, "config": dict(topic.config)},
    }


def _metadata(name: str, settings: Mapping[str, str], cluster: str | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if "namespace" in settings:
        metadata["namespace"] = settings["namespace"]
    if cluster is not None:
        metadata["labels"] = {"strimzi.io/cluster": cluster}
    return metadata


def _reads_secrets(settings: Mapping[str, str]) -> bool:
    """Return whether the worker reads the Secret by itself."""
    return settings.get("secrets") == "secrets"


def _secret_name(pipeline: Pipeline) -> str:
    return f"{pipeline.name}-secrets"


def _comment(pipeline: Pipeline, settings: Mapping[str, str]) -> str:
    connect = settings["connect"]
    lines = [
        f"The connector {pipeline.name}, rendered by cdc-outbox render --target strimzi.",
        f'The KafkaConnect {connect} needs the annotation strimzi.io/use-connector-resources: "true".',
    ]
    providers = {found for option in pipeline.options for found, _ in REFERENCE.findall(option.value)}
    if _reads_secrets(settings):
        providers.add("secrets")
    known = {
        "env": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "secrets": "io.strimzi.kafka.KubernetesSecretConfigProvider",
    }
    lines += [
        f"Its spec.config needs {provider} in config.providers; config.providers.{provider}.class {known[provider]}."
        for provider in sorted(providers & known.keys())
    ]
    if variables := _variables(pipeline):
        lines.append(f"Add {', '.join(variables)} to the Secret {_secret_name(pipeline)}, once:")
        literals = " ".join(f"--from-literal={key}=…" for key in variables)
        create = f"kubectl create secret generic {_secret_name(pipeline)} {literals} --dry-run=client -o yaml"
        lines.append(f"  {create} | kubectl apply --server-side -f -")
        if not _reads_secrets(settings):
            lines.append("The worker gets them as variables: spec.template.connectContainer.env of the KafkaConnect.")
    return "".join(f"# {visible(line)}\n" for line in lines)


STRIMZI = Target(name="strimzi", settings=SETTINGS, render=_render)
