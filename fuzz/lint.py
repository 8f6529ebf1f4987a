"""Random YAML and JSON for the linter: it finds something or nothing, and never anything else. So does `adopt`.

The suite runs a thousand texts; `infra/fuzz lint` runs fifty thousand and prints what became of them. It exits 1 if
anything was raised, if a finding has no line in the text or no explanation, or if a secret was repeated.
"""

import argparse
import json
import re
import sys
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_outbox.cli.findings import FORMATS
from cdc_outbox.databases.database import CAPTURED
from cdc_outbox.debezium.adopt import adopt
from cdc_outbox.debezium.config_texts import find_in_text
from cdc_outbox.debezium.explanations import explanations
from cdc_outbox.debezium.lint import Config, lint_all
from cdc_outbox.debezium.normalized_config import differences
from cdc_outbox.debezium.render.spec_config import rendered_config
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import Finding
from tests.support.configs import CLEAN
from tests.support.hazards import CASES
from tests.support.strategies import rubbish_texts

SECRET = "kMq7ZnT0pSecReT"
SPECS = [path.read_text() for path in sorted((Path(__file__).parents[1] / "connectors").glob("*.yaml"))]

_LINE_ENDS = re.compile("[\n\r\x85\u2028\u2029]")
_OPTIONS = sorted({option for case in CASES for option in case.changes} | {o for c in CLEAN.values() for o in c})
_SECRETS = ["database.password", "producer.override.sasl.jaas.config", "schema.registry.token", "mongodb.password"]
_NUMBERS = ["0", "-1", "1", "2048", "99999999999999999999", "1e9", "0x10", "٣"]
_PATTERNS = [".*", "[a", "(a+)+", "[[a-z]", "a{2,1}", "(?<x>.*)", "(?P<x>.*)", "\\", "(", "$", "${x}", "$9", "\\Q"]
_LISTS = ["", ",", ",,", "a,a", "outbox,,x", "a:b:c:d", ":", "a:", ":header", "a\\,b", "public.outbox, x.y"]
_words = st.sampled_from([*_NUMBERS, *_PATTERNS, *_LISTS, "true", "FALSE", "ü" * 64, "\u202e\x1b[2J", "${env:X}"])
_values = _words | st.text(max_size=30) | st.sampled_from([value for case in CASES for value in case.changes.values()])
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def _configs(draw: st.DrawFn) -> dict[str, Any]:
    """A clean configuration in which much is changed."""
    config: dict[str, Any] = dict(CLEAN[draw(st.sampled_from(CAPTURED))])
    for option in draw(st.lists(st.sampled_from(_OPTIONS) | st.text(max_size=20), max_size=8)):
        config[option] = draw(_values | _anything)
    for option in draw(st.lists(st.sampled_from(list(config)), max_size=4)):
        config.pop(option, None)
    for option in draw(st.lists(st.sampled_from(_SECRETS), max_size=2)):
        config[option] = SECRET
    return config


@st.composite
def _documents(draw: st.DrawFn) -> str:
    """One of the forms in which people keep configurations, or nearly."""
    config = draw(_configs())
    content: Any = draw(
        st.sampled_from(
            [
                config,
                {"name": "x", "config": config},
                {"name": draw(_anything), "config": config, "tasks": []},
                [config, {"name": "y", "config": draw(_configs())}],
                {"x": {"info": {"name": "x", "config": config}}},
                {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaConnector", "spec": {"config": config}},
                {"kind": "KafkaConnector", "spec": draw(_anything)},
                draw(_anything),
            ]
        )
    )
    if draw(st.booleans()):
        return json.dumps(content, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    return yaml.safe_dump(content, allow_unicode=draw(st.booleans()), default_flow_style=draw(st.booleans()))


@st.composite
def _mutated(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    text = draw(texts)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + draw(st.just("") | _words | st.text(max_size=5) | st.just(text[start:end])) + text[end:]
    return text


@st.composite
def _specs(draw: st.DrawFn) -> str:
    """A spec with overrides that somebody thought of."""
    overrides = draw(st.dictionaries(st.sampled_from(_OPTIONS), _values, max_size=4))
    secret = draw(st.sampled_from(["", f"  password: {SECRET}\n"]))
    text = draw(st.sampled_from(SPECS)).replace("database:", f"database:\n{secret}", 1)
    return text + yaml.safe_dump({"overrides": overrides})


texts: st.SearchStrategy[str] = st.one_of(
    _configs().map(json.dumps),
    _configs().map(lambda config: json.dumps({"name": "x", "config": config}, indent=1)),
    _documents(),
    _mutated(_documents()),
    _mutated(st.sampled_from(SPECS)),
    _specs(),
    rubbish_texts,
)


read_texts: st.SearchStrategy[str] = st.one_of(
    _configs().map(json.dumps), _configs().map(lambda config: json.dumps({"name": "x", "config": config})), _specs()
)
"""Those among them that can be read: what is adopted is one of these."""


@st.composite
def named_texts(draw: st.DrawFn, drawn: st.SearchStrategy[str] = texts) -> tuple[str, str]:
    """A text under a name that mostly says what it is."""
    text = draw(drawn)
    fitting = "x.json" if text[:1] in {"{", "["} else "x.yaml"
    return text, draw(st.sampled_from([fitting, fitting, fitting, "x", "x.json", "x.yaml"]))


def check(text: str, name: str, *, adopts: bool = True) -> str:
    """Lint and adopt one text, and return in a word what became of it."""
    configs, refused = find_in_text(text, name=name)
    told, spec = adoption(configs[0]) if configs and adopts else ([], "")
    assert SECRET not in spec or not is_secret(text)
    findings = [*refused, *lint_all(configs), *told]
    lines = len(_LINE_ENDS.findall(text)) + 2
    for finding in findings:
        assert finding.severity is explanations()[finding.code].severity
        assert finding.location.line is None or 1 <= finding.location.line <= lines
    for print_as in FORMATS.values():
        said = print_as(findings)
        said.encode()
        assert SECRET not in said or not is_secret(text)
    return outcome(findings, read=bool(configs))


def adoption(config: Config) -> tuple[list[Finding], str]:
    """Adopt a configuration if it is an outbox's, and return what was told and the spec; nothing differs unsaid."""
    try:
        adopted = adopt(config, {}, made_from="x.json")
    except ConfigError as error:
        return list(error.findings), ""
    told = {finding.location.path for finding in adopted.findings}
    after = rendered_config(adopted.spec, config.version)
    assert told >= {difference.option for difference in differences(config, after)}
    return list(adopted.findings), adopted.text


def is_secret(text: str) -> bool:
    """Tell whether the secret stands where a secret belongs, and nowhere else: chance may have put it anywhere."""
    forms = [form for option in _SECRETS for form in (f'{option}": "{SECRET}"', f"{option}: {SECRET}\n")]
    return 0 < text.count(SECRET) == sum(text.count(form) for form in forms)


def outcome(findings: list[Finding], *, read: bool) -> str:
    """Return a word for what became of a text."""
    if not read:
        return "refused"
    return "found something" if findings else "clean"


def explore(
    number: int, *, drawn: st.SearchStrategy[str] = texts, adopts: bool = True, repeats: bool = False
) -> Counter[str]:
    """Lint so many random texts and count what became of them.

    Args:
        drawn: What is drawn from.
        adopts: Whether each is adopted besides, which takes four times as long.
        repeats: Whether the texts are the same in each run.
    """
    counts: Counter[str] = Counter()

    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        derandomize=repeats,
        suppress_health_check=list(HealthCheck),
    )
    @given(named_texts(drawn))
    def explored(named: tuple[str, str]) -> None:
        counts[check(*named, adopts=adopts)] += 1

    explored()
    return counts


def report(counts: Mapping[str, int]) -> str:
    """Return what became of the texts."""
    total = sum(counts.values())
    return "\n".join([f"{total:,} texts", *(f"{count:>10,}  {word}" for word, count in sorted(counts.items()))])


def main() -> int:
    """Run the long way and print what became of the texts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--texts", type=int, default=50_000)
    try:
        print(report(explore(parser.parse_args().texts)))
    except Exception:  # noqa: BLE001 - whatever it is, it is what was looked for
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
