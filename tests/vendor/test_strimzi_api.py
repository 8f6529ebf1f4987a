"""What our tests take for Strimzi's API is what its own classes say, of which the CRDs are made."""

import re
import subprocess
from pathlib import Path

import platformdirs
import pytest

from tests.support.strimzi import FORBIDDEN, RELEASE, SPECS

_COPYING = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_MODEL = "io.strimzi.api.kafka.model"
_TYPES = {"java.lang.String": "string", "java.lang.Integer": "integer"}
"""Beside these there are enumerations, and what is an object."""
CLASSES = {
    "KafkaConnector": [f"{_MODEL}.connector.{name}" for name in ("KafkaConnectorSpec", "AbstractConnectorSpec")],
    "KafkaTopic": [f"{_MODEL}.topic.KafkaTopicSpec"],
}
"""Those with the fields of a kind's spec."""


@pytest.fixture(scope="module")
def jar() -> Path:
    folder = platformdirs.user_cache_path("cdc-outbox") / "strimzi"
    found = folder / f"api-{RELEASE}.jar"
    if not found.exists():
        artifact = f"-Dartifact=io.strimzi:api:{RELEASE}"
        subprocess.run(["mvn", "-q", "-B", _COPYING, artifact, f"-DoutputDirectory={folder}"], check=True)
    return found


def said_of(jar: Path, *classes: str) -> str:
    """Return what the compiler left in them, annotations included."""
    command = ["javap", "-v", "-p", "-cp", str(jar), *classes]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def fields_in(said: str) -> dict[str, dict[str, str | int]]:
    """Return the fields as a schema has them, as far as the classes say it."""
    found: dict[str, dict[str, str | int]] = {}
    for method in re.split(r"\n(?=  \S)", said):
        getter = re.match(r"  public ([\w.]+)\S*.* get(\w)(\w*)\(\);", method)
        if getter is None or "annotations.Description(" not in method:
            continue
        renamed = re.search(r'\.JsonProperty\(\s+value="(\w+)"', method)
        name = renamed[1] if renamed else f"{getter[2].lower()}{getter[3]}"
        found[name] = {"type": "enum" if getter[1].endswith("State") else _TYPES.get(getter[1], "object")}
        for limit in ("Minimum", "Maximum"):
            if bound := re.search(rf"annotations\.{limit}\(\s+value=(\d+)", method):
                found[name][limit.lower()] = int(bound[1])
    return found


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_a_kind_has_the_fields_that_its_class_has(kind: str, jar: Path) -> None:
    said = ("type", "minimum", "maximum")
    ours = {
        name: {"type": "enum"} if "enum" in field else {key: field[key] for key in said if key in field}
        for name, field in SPECS[kind].items()
    }
    assert fields_in(said_of(jar, *CLASSES[kind])) == ours


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_v1_is_what_is_served_and_its_spec_is_required(kind: str, jar: Path) -> None:
    said = said_of(jar, CLASSES[kind][0].removesuffix("Spec"))
    versions = re.findall(r'annotations\.Crd\$Spec\$Version\(\s+name="(\w+)"\s+served=true', said)
    assert versions == ["v1"]
    assert 'RequiredInVersions(\n          value="v1+"' in said


def test_enumerated_states_and_forbidden_options_are_theirs(jar: Path) -> None:
    [forbidden] = set(re.findall(r"ConstantValue: String (name, .+)", said_of(jar, *CLASSES["KafkaConnector"])))
    assert forbidden.split(", ") == FORBIDDEN
    states = re.findall(r"static final \S+ConnectorState ([A-Z]+);", said_of(jar, f"{_MODEL}.common.ConnectorState"))
    assert [state.lower() for state in states] == SPECS["KafkaConnector"]["state"]["enum"]
