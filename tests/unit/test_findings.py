"""Findings for people and for machines."""

import json

import pytest
from jsonschema import Draft202012Validator

from cdc_outbox.cli.findings import FORMATS, as_annotations, as_json, as_sarif, as_text
from cdc_outbox.finding import Finding, Location, Severity

FINDINGS = [
    Finding(
        code="CC201",
        severity=Severity.ERROR,
        location=Location(document="connectors/a b,c:d%.json", path="errors.tolerance", line=7),
        message="skipped: 100 %\nof them.",
        remedy="Leave it out.",
    ),
    Finding(
        code="CC602", severity=Severity.WARNING, location=Location(document="stdin"), message="Größe\x1b[2J\u202e."
    ),
    Finding(code="CC110", severity=Severity.NOTE, location=Location(document="y.yaml", line=2), message="late."),
]

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "$schema": {"type": "string", "format": "uri"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "rules"],
                                "properties": {
                                    "semanticVersion": {"pattern": r"^\d+\.\d+\.\d+"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {
                                                "shortDescription": TEXT,
                                                "fullDescription": TEXT,
                                                "help": TEXT,
                                                "defaultConfiguration": {
                                                    "properties": {
                                                        "level": {"enum": ["none", "note", "warning", "error"]}
                                                    }
                                                },
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message", "ruleId", "level", "locations"],
                            "properties": {
                                "message": TEXT,
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "locations": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "type": "object",
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "required": ["uri"],
                                                        "properties": {"uri": {"pattern": r"^[\w./%~-]+$"}},
                                                    },
                                                    "region": {
                                                        "required": ["startLine"],
                                                        "properties": {"startLine": {"type": "integer", "minimum": 1}},
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""What SARIF 2.1.0's schema asks of the parts that are written."""


def test_text_is_a_line_each_and_harms_no_terminal() -> None:
    lines = as_text(FINDINGS).splitlines()
    assert lines == [
        r"connectors/a b,c:d%.json:7 errors.tolerance: error CC201: skipped: 100 %\nof them. Leave it out.",
        r"stdin: warning CC602: Größe\x1b[2J\u202e.",
        "y.yaml:2: note CC110: late.",
    ]


def test_json_is_a_document_of_its_version() -> None:
    document = json.loads(as_json(FINDINGS))
    assert (document["apiVersion"], document["kind"]) == ("cdc-outbox/v1", "Findings")
    assert document["counts"] == {"error": 1, "warning": 1, "note": 1}
    assert document["findings"][0] == {
        "code": "CC201",
        "severity": "error",
        "document": "connectors/a b,c:d%.json",
        "path": "errors.tolerance",
        "line": 7,
        "message": "skipped: 100 %\nof them.",
        "remedy": "Leave it out.",
    }
    assert document["findings"][1]["line"] is None


def test_sarif_keeps_its_schemas_essentials() -> None:
    document = json.loads(as_sarif(FINDINGS))
    Draft202012Validator.check_schema(SARIF)
    assert list(Draft202012Validator(SARIF).iter_errors(document)) == []
    [run] = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [rules[result["ruleIndex"]] for result in run["results"]] == ["CC201", "CC602", "CC110"]
    location = run["results"][0]["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "connectors/a%20b%2Cc%3Ad%25.json"
    assert location["logicalLocations"] == [{"fullyQualifiedName": "errors.tolerance"}]


def test_annotations_escape_what_ends_them() -> None:
    place = "file=connectors/a b%2Cc%3Ad%25.json,line=7,title=CC201"
    assert as_annotations(FINDINGS).splitlines() == [
        rf"::error {place}::errors.tolerance: skipped: 100 %25\nof them. Leave it out.",
        r"::warning file=stdin,line=1,title=CC602::Größe\x1b[2J\u202e.",
        "::notice file=y.yaml,line=2,title=CC110::late.",
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_found_is_nothing_to_worry_about(name: str) -> None:
    said = FORMATS[name]([])
    assert said == "" if name in {"text", "ci"} else json.loads(said)
