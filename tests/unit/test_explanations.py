"""Every code that is raised has an explanation, in plain words, and every explanation is of such a code."""

import re
from pathlib import Path

import pytest

from cdc_outbox.debezium.explanations import explanations, page
from cdc_outbox.debezium.lint import RULES

ROOT = Path(__file__).parents[2]
TAGS = r"\[(exec|code|docs|issue|inference)\]"


def raised() -> set[str]:
    modules = (ROOT / "cdc_outbox").rglob("*.py")
    return {code for path in modules for code in re.findall(r'"((?:SP|DB|CC|OP)[0-9]{3})"', path.read_text())}


def test_every_code_is_explained_and_every_explained_code_exists() -> None:
    assert set(explanations()) == raised()


def test_a_rule_has_the_severity_of_its_explanation() -> None:
    for rule in RULES:
        assert explanations()[rule.code].severity is rule.severity, rule.code


@pytest.mark.parametrize("code", explanations())
def test_an_explanation_says_what_happens_and_what_to_do(code: str) -> None:
    found = explanations()[code]
    assert found.title[0].isupper()
    assert not found.title.endswith(".")
    for part in (found.happens, found.remedy):
        assert part.endswith((".", ")", "*", "]", "…", "'')", "reader.")) or re.search(r"[\w)]$", part), part
    if found.observed:
        assert re.search(TAGS, found.observed), code


def test_explanations_and_findings_use_plain_words() -> None:
    riddles = re.compile(
        r"\b(somebody|nobody|anybody|everybody|whoever|shall|anew|mend|let|in silence|without a word|taken for)\b"
        r"|leaves? (it|them) out|for good\b"
    )
    folder = ROOT / "cdc_outbox" / "debezium"
    pages = [*folder.glob("explanations/*.md"), *(folder / "lint").glob("*.py"), *folder.glob("preflight/*.py")]
    pages += [folder / "slot_plan.py", folder / "diagnosis.py", folder / "connector_offsets.py"]
    moved_with_the_options = {"promises.py", "specs.py"}
    texts = [(page.name, line) for page in pages for line in page.read_text().splitlines()]
    found = [f"{name}: {line}" for name, line in texts if riddles.search(line) and name not in moved_with_the_options]
    assert found == []


def test_codes_stand_in_order() -> None:
    for prefix in ("SP", "DB", "OP"):
        codes = [code for code in explanations() if code.startswith(prefix)]
        assert codes == sorted(codes)


def test_the_page_is_what_the_command_makes() -> None:
    """Regenerate with `cdc-outbox explain --all > docs/findings.md`."""
    assert (ROOT / "docs" / "findings.md").read_text() == page()
