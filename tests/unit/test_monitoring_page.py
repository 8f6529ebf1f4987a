"""``docs/monitoring.md`` tells the series that there are, and its rules use them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from cdc_outbox.monitoring.series import OPEN_LABEL, SERIES, Series, SeriesKind

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
KNOWN = {series.name: series for series in SERIES}
OF_A_SCRAPE = {"job", "instance"}


class Rule(NamedTuple):
    alert: str
    expr: str


def rules() -> Iterator[Rule]:
    [text] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for rule in yaml.safe_load(text)["groups"][0]["rules"]:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        yield Rule(rule["alert"], rule["expr"])


def row(series: Series) -> str:
    labels = ", ".join(f"`{label}`" for label in series.labels)
    return f"| `{series.name}` | {series.kind} | {labels} | {series.meaning} |"


def test_the_page_has_every_series_and_no_other() -> None:
    """Fix it with what this expects."""
    head = "| series | kind | labels | meaning |\n|---|---|---|---|\n"
    table = PAGE.partition(head)[2].partition("\n\n")[0]
    assert table.strip() == "\n".join(map(row, SERIES))


@pytest.mark.parametrize("series", SERIES, ids=lambda series: series.name)
def test_a_series_is_named_as_prometheus_wants_it(series: Series) -> None:
    assert re.fullmatch(r"cdc_outbox_(consumer|relay)_[a-z_]+", series.name)
    assert series.name.endswith("_total") == (series.kind is SeriesKind.COUNTER)
    assert bool(series.buckets) == (series.kind is SeriesKind.HISTOGRAM)
    assert list(series.buckets) == sorted(set(series.buckets))
    assert series.name.startswith(f"cdc_outbox_{series.labels[0]}_")
    assert not set(series.labels) & (OF_A_SCRAPE | {"le", "name"})
    assert series.meaning.endswith(".")


def test_no_series_is_named_twice_and_open_labels_stand_on_no_gauge() -> None:
    """A gauge that is told as ``other`` would be the last one of many."""
    assert len(KNOWN) == len(SERIES)
    assert not [series for series in SERIES if series.kind is SeriesKind.GAUGE and OPEN_LABEL in series.labels]


@pytest.mark.parametrize("rule", list(rules()), ids=lambda rule: rule.alert)
def test_a_rule_asks_for_series_and_labels_that_there_are(rule: Rule) -> None:
    names = re.findall(r"cdc_outbox_\w+", rule.expr)
    of_histograms = {f"{name}_bucket" for name in KNOWN if KNOWN[name].kind is SeriesKind.HISTOGRAM}
    assert names
    assert set(names) <= {name for name in KNOWN if KNOWN[name].kind is not SeriesKind.HISTOGRAM} | of_histograms
    labels = {label for name in names for label in KNOWN[name.removesuffix("_bucket")].labels} | OF_A_SCRAPE
    labels |= {"le"} if of_histograms & set(names) else set()
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", rule.expr)
    used = {label.strip() for group in grouped for label in group.split(",")} | set(
        re.findall(r"[{,](\w+)=", rule.expr)
    )
    assert used <= labels
    # A counter says nothing until it is asked how fast it grows, and a gauge is not asked that.
    for name in names:
        asked = re.search(rf"(rate|increase)\({name}(\{{.*?\}})?\[\d+m\]\)", rule.expr)
        assert bool(asked) == name.endswith(("_total", "_bucket"))
