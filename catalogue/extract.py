"""Read options from the plugins of a running worker, and further ones from the plugins' classes."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import requests

from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.debezium.event_router.jvm import Jvm
from cdc_outbox.debezium.options import CONNECTORS, Option

_FRAMEWORK = {
    "Common", "Transforms", "Predicates", "Error Handling", "Topic Creation", "Exactly Once Support", "offsets.topic",
}  # fmt: skip
"""The groups that a worker puts Connect's own options into; Debezium uses none of these names."""

_SHARED = ("connector", "config", "heartbeat", "pipeline", "relational", "schema", "storage", "util")
"""The packages below ``io.debezium`` whose declarations are options of a connector; others are of plugins."""

_RELATIONAL = ("io.debezium.relational.", "io.debezium.heartbeat.DatabaseHeartbeat")
"""What only a connector with tables uses."""

_NOT_ONES_OWN = {"tasks.max", "database.dbname"}
"""Options that a shared class declares; connectors that do not report them ignore them."""

_READ_ELSEWHERE = {
    # Not declared for it, but read from the router's own options (JsonSchemaData's field names).
    "io.debezium.transforms.outbox.EventRouter": ("field.name.adjustment.mode",),
}
_PARTS = ("producer", "framework")
_SECONDS = 60.0

Options = dict[str, Option]
Declarations = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(slots=True)
class Extract:
    """The options of everything in one worker, by name; plugins by class.

    Args:
        versions: Of each class, without Debezium's ``.Final``.
    """

    versions: dict[str, str] = field(default_factory=dict)
    connectors: dict[str, Options] = field(default_factory=dict)
    plugins: dict[str, Options] = field(default_factory=dict)
    kinds: dict[str, list[str]] = field(default_factory=dict)
    framework: Options = field(default_factory=dict)
    producer: Options = field(default_factory=dict)


def extract(worker: Cluster, folders: Sequence[Path], jvm: Jvm) -> Extract:
    """Read all options of a worker's plugins; of a plugin that it has twice, the newest version's.

    Args:
        worker: It alone, and the login to it.
        folders: Each Debezium plugin's folder, for what its classes declare.
        jvm: What the worker runs on.
    """
    producer, closed = kafka_options(jvm)
    found = Extract(producer=producer)
    declared = [(_version_in(folder), declarations(folder, jvm)) for folder in folders]
    for plugin in _ask(worker, "/connector-plugins?connectorsOnly=false"):
        name, kind, version = plugin["class"], plugin["type"], plugin["version"].removesuffix(".Final")
        if kind == "sink":
            continue
        if _number(version) < _number(found.versions.get(name, "")):
            continue
        found.versions[name] = version
        same = [facts for at, facts in declared if at == version]
        if kind == "source":
            connector = next(key for key, class_name in CONNECTORS.items() if class_name == name)
            own = next(each for each in same if any(_is_of(name, fact) for facts in each.values() for fact in facts))
            answer = _ask_for_connector(worker, name)
            found.framework |= {option.name: option for option in _framework(answer, closed)}
            found.connectors[connector] = _connector_options(answer, own, name)
        else:
            found.plugins[name] = _plugin_options(worker, name, _merged(same))
            found.kinds[name] = sorted({*found.kinds.get(name, []), kind})
    return found


def declarations(folder: Path, jvm: Jvm) -> Declarations:
    """Return the declarations in a plugin's classes, by option; several classes may declare one."""
    command = [jvm.java, "-cp", f"{jvm.home}/libs/*", str(Path(__file__).with_name("Fields.java")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    told: Declarations = json.loads(done.stdout)
    return told


def kafka_options(jvm: Jvm) -> tuple[Options, Options]:
    """Return the options of the producer that Connect sends with, and those of its own that have a closed list."""
    source = Path(__file__).with_name("KafkaOptions.java")
    command = [jvm.java, "-cp", f"{jvm.home}/libs/*", str(source)]
    both = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603
    producer, framework = ({name: _of_kafka(name, fact) for name, fact in both[part].items()} for part in _PARTS)
    return producer, framework


def _of_kafka(name: str, fact: Mapping[str, str | None]) -> Option:
    said = str(fact["validator"])
    closed = re.fullmatch(r"(\(case insensitive\) )?\[(.*)\]", said)
    allowed = sorted(closed[2].split(", ")) if closed and "..." not in said else []
    # Where case does not matter, the classes show one and take the other as the default.
    small = bool(closed and closed[1]) and str(fact["default"]).islower()
    texts = tuple(text.lower() if small else text for text in allowed)
    return Option(name, str(fact["type"]).lower(), fact["default"], str(fact["importance"]).lower(), allowed=texts)


def _ask_for_connector(worker: Cluster, class_name: str) -> list[dict[str, Any]]:
    body = {
        "name": "catalogue",
        "connector.class": class_name,
        "transforms": "t",
        "predicates": "p",
        "transforms.t.type": "org.apache.kafka.connect.transforms.Filter",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    answer = _ask(worker, f"/connector-plugins/{class_name}/config/validate", body)
    return [option for option in answer["configs"] if option["definition"] is not None]


def _framework(answer: Sequence[Mapping[str, Any]], closed: Options) -> Iterator[Option]:
    for told in answer:
        definition = told["definition"]
        group = str(definition["group"])
        if group in _FRAMEWORK or group.startswith(("Transforms: ", "Predicates: ")):
            name = definition["name"]
            option = _told(definition, closed[name].allowed if name in closed else ())
            if name.endswith(".converter"):
                option = replace(option, default=None)  # what is told is this worker's own setting
            alias = option.name.replace("transforms.t.", "transforms.<alias>.")
            yield replace(option, name=alias.replace("predicates.p.", "predicates.<alias>."))


def _connector_options(answer: Sequence[Mapping[str, Any]], declared: Declarations, class_name: str) -> Options:
    options = {}
    for told in answer:
        definition = told["definition"]
        group = str(definition["group"])
        if group not in _FRAMEWORK and not group.startswith(("Transforms: ", "Predicates: ")):
            option = _told(definition, _recommended(told))
            shared = [fact for fact in declared.get(option.name, ()) if _is_connectors(fact["class"])]
            required = option.required or _is_missed(told)
            options[option.name] = _completed(replace(option, required=required), shared[-1] if shared else None)
    known = frozenset(options)
    for name, facts in declared.items():
        theirs = [fact for fact in facts if _is_connectors(fact["class"]) and _concerns(name, fact["class"], known)]
        if name not in known | _NOT_ONES_OWN and "." in name and theirs:
            # Of several, the connector's own says more than a shared one.
            fact = next((fact for fact in theirs if _is_of(class_name, fact)), theirs[-1])
            options[name] = _untold(name, fact)
    return options


def _plugin_options(worker: Cluster, class_name: str, declared: Declarations) -> Options:
    options = {}
    for definition in _ask(worker, f"/connector-plugins/{class_name}/config"):
        option = _told(definition, ())
        named = [fact for fact in declared.get(option.name, ()) if not _is_connectors(fact["class"])]
        same = [fact for fact in named if (fact["default"] or "") == (option.default or "")]
        near = [fact for fact in same if _package(fact["class"]) == _package(class_name)]
        options[option.name] = _completed(option, next(iter([*near, *same]), None))
    for name, facts in declared.items():
        for fact in facts:
            if name not in options and fact["class"].startswith(class_name):
                options[name] = _untold(name, fact)
    for name in _READ_ELSEWHERE.get(class_name, ()):
        options[name] = _untold(name, declared[name][-1])
    return options


def _is_missed(told: Mapping[str, Any]) -> bool:
    """Return whether Debezium refuses a configuration without this option; its definitions do not show it."""
    value = told["value"] or {}
    return bool(value.get("errors")) and value["value"] is None


def _told(definition: Mapping[str, Any], allowed: Sequence[str]) -> Option:
    name, kind = definition["name"], definition["type"].lower()
    required = bool(definition["required"])
    # The version that is installed is a fact about the worker.
    default = None if required or name.endswith("plugin.version") else definition["default_value"]
    closed = () if kind == "class" or name.endswith(("plugin.version", ".converter")) else tuple(sorted(set(allowed)))
    return Option(name, kind, default, definition["importance"].lower(), required, allowed=closed)


def _completed(option: Option, fact: Mapping[str, Any] | None) -> Option:
    if fact is None:
        return option
    aliases = tuple(alias for alias in fact["aliases"] if alias != option.name)
    return replace(option, allowed=option.allowed or tuple(fact["allowed"]), aliases=aliases)


def _untold(name: str, fact: Mapping[str, Any]) -> Option:
    option = Option(name, (fact["type"] or "string").lower(), fact["default"], (fact["importance"] or "").lower())
    return _completed(replace(option, is_reported=False), fact)


def _recommended(told: Mapping[str, Any]) -> list[str]:
    # One that the connector does not validate has a definition and no value.
    return [str(value) for value in (told["value"] or {}).get("recommended_values", ())]


def _is_connectors(class_name: str) -> bool:
    package = class_name.removeprefix("io.debezium.").split(".")
    aside = {"transforms", "converters", "sink"} & set(package) or "SinkConnector" in package[-1]
    return package[0] in _SHARED and not aside


def _concerns(name: str, class_name: str, told: Set[str]) -> bool:
    """Return whether a declaration in a shared class is for this connector: every plugin has all classes."""
    if "schema.history.internal" in name:
        return "schema.history.internal" in told
    return "table.include.list" in told or not class_name.startswith(_RELATIONAL)


def _is_of(class_name: str, fact: Mapping[str, Any]) -> bool:
    return _package(fact["class"]).startswith(_package(class_name))


def _merged(all_declared: Sequence[Declarations]) -> Declarations:
    merged: dict[str, dict[str, Mapping[str, Any]]] = {}
    for declared in all_declared:
        for name, facts in declared.items():
            merged.setdefault(name, {}).update({fact["class"]: fact for fact in facts})
    return {name: list(facts.values()) for name, facts in merged.items()}


def _version_in(folder: Path) -> str:
    names = " ".join(jar.name for jar in folder.glob("debezium-connector-*.jar"))
    found = re.search(r"-(\d+\.\d+\.\d+)\.Final\.jar", names)
    return found[1] if found else ""


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", version))


def _package(class_name: str) -> str:
    return class_name.rsplit(".", 1)[0]


def _ask(worker: Cluster, path: str, body: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - JSON
    [url], headers = worker.urls, {} if worker.login is None else {"Authorization": worker.login.header}
    answer = requests.request("PUT" if body else "GET", url + path, json=body, headers=headers, timeout=_SECONDS)
    answer.raise_for_status()
    return answer.json()
