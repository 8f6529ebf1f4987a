"""What a Java regular expression says, beside what it matches."""

import pytest

from cdc_outbox.debezium.java_regex import literal, matches, only_text, refusal
from cdc_outbox.debezium.java_replacement import read_replacement


@pytest.mark.parametrize(
    ("regex", "name"),
    [
        ("public.outbox", "public.outbox"),
        (r"public\.outbox", "public.outbox"),
        (r"^public\.outbox$", "public.outbox"),
        (r"\Qpublic.outbox\E", "public.outbox"),
        (r"(?:public)\.(outbox)", "public.outbox"),
        (r"public\x2eoutbox", "public.outbox"),
        (r"shop\.größe\-2", "shop.größe-2"),
        ("a#b", "a#b"),
        ("a{2}", "aa"),
    ],
)
def test_a_name_is_told_however_it_is_written(regex: str, name: str) -> None:
    assert literal(regex) == name
    assert matches(regex, name)


@pytest.mark.parametrize(
    "regex",
    ["", "^$", "public.*", "a|b", "a?", "[ab]", r"\d", "a$b", "(", "(?!a)b", "a++", "${env:TABLE}", "(a)" * 400],
)
def test_what_is_written_for_several_names_or_none_has_no_name(regex: str) -> None:
    assert literal(regex) is None
    assert only_text(regex) is None


@pytest.mark.parametrize("regex", ['"public"."outbox"', "`shop`.`outbox`", "<schema>.<table>"])
def test_what_is_quoted_or_to_be_filled_in_is_no_name(regex: str) -> None:
    assert literal(regex) is None


def test_a_dot_is_any_character_unless_a_name_is_meant() -> None:
    assert (literal("a.b"), only_text("a.b"), only_text(r"^a\.b$")) == ("a.b", None, "a.b")


@pytest.mark.parametrize(
    ("regex", "text", "does"),
    [
        *((r"a(?=b)\w+", text, does) for text, does in (("ab", True), ("ac", False))),
        *((r"a(?!b)\w+", text, does) for text, does in (("ab", False), ("ac", True))),
        (r"\Aab\z", "ab", True),
        (r"(?=(a))\1b", "ab", None),  # a back-reference is not read
    ],
)
def test_a_group_may_look_ahead(regex: str, text: str, *, does: bool | None) -> None:
    assert matches(regex, text) is does


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        *(("a", ""), ("a++", ""), ("(", "a group that is not closed"), ("(?", "a group that is not closed")),
        ("(?P<a>b)", "a group's name is written (?<name>…) in Java"),
        ("(?<1>b)", "a group's name is malformed"),
        ("(?<a>b)(?<a>c)", "two groups of the name a"),
    ],
)
def test_only_what_java_refuses_has_a_reason(regex: str, reason: str) -> None:
    assert refusal(regex) == reason


@pytest.mark.parametrize(
    ("replacement", "groups", "parts"),
    [
        ("a.b", 0, [("a.b", None)]),
        (r"a\.\$1", 1, [("a", None), (".", None), ("$", None), ("1", None)]),
        ("${name}.$0", 0, [("", "name"), (".", None), ("", 0)]),
        ("$12", 1, [("", 1), ("2", None)]),
        ("$12", 12, [("", 12)]),
        ("$9", 1, [("", 9)]),
    ],
)
def test_a_replacement_is_read_as_java_reads_it(
    replacement: str, groups: int, parts: list[tuple[str, str | int | None]]
) -> None:
    assert [(part.text, part.group) for part in read_replacement(replacement, groups)] == parts


@pytest.mark.parametrize("replacement", ["$", "a$b", "${name", "\\"])
def test_a_replacement_with_a_sign_alone_is_malformed(replacement: str) -> None:
    assert any(part.is_malformed for part in read_replacement(replacement))
