"""Every code that is raised has a story, and every story is of a code that is raised."""

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


def test_a_rules_severity_is_the_one_that_is_told() -> None:
    for rule in RULES:
        assert explanations()[rule.code].severity is rule.severity, rule.code


@pytest.mark.parametrize("code", explanations())
def test_a_story_says_what_happens_and_what_to_do(code: str) -> None:
    story = explanations()[code]
    assert story.title[0].isupper()
    assert not story.title.endswith(".")
    for part in (story.happens, story.remedy):
        assert part.endswith((".", ")", "*", "]", "…", "'')", "reader.")) or re.search(r"[\w)]$", part), part
    if story.observed:
        assert re.search(TAGS, story.observed), code


def test_codes_stand_in_order() -> None:
    for prefix in ("SP", "DB", "OP"):
        codes = [code for code in explanations() if code.startswith(prefix)]
        assert codes == sorted(codes)


def test_the_page_is_what_the_command_makes() -> None:
    """Regenerate with `cdc-outbox explain --all > docs/findings.md`."""
    assert (ROOT / "docs" / "findings.md").read_text() == page()
