"""Rules about topic names: the router's regular expression and its replacement."""

import re

from cdc_outbox.debezium.config import Config, Router, is_reference
from cdc_outbox.debezium.java_regex import InvalidRegexError, matches, only_text, read_regex, refusal
from cdc_outbox.debezium.java_replacement import ReplacementPart, read_replacement
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, Hit, Hits, Rulebook
from cdc_outbox.debezium.regex_program import Pattern, UnknownRegexError
from cdc_outbox.text_files.document import did_you_mean

book = Rulebook()

_DEFAULT_REGEX = "(?<routedByValue>.*)"
_DEFAULT_REPLACEMENT = "outbox.event.${routedByValue}"


@book.router_rule("CC311", ERROR)
def invalid_topic_regex(config: Config, router: Router) -> Hits:
    option = "route.topic.regex"
    reason = refusal(router.get(option, _DEFAULT_REGEX))
    if reason:
        yield Hit(router.prefix + option, f"not a valid regular expression: {reason}; the task fails.", "Correct it.")


@book.router_rule("CC312", ERROR)
def unknown_replacement_group(config: Config, router: Router) -> Hits:
    try:
        pattern = read_regex(router.get("route.topic.regex", _DEFAULT_REGEX))
    except (InvalidRegexError, UnknownRegexError):
        return
    replacement = router.get("route.topic.replacement", _DEFAULT_REPLACEMENT)
    option = "route.topic.replacement" if "route.topic.replacement" in router.options else "route.topic.regex"
    if is_reference(replacement):
        return
    for part in read_replacement(replacement, pattern.groups):
        problem = _problem(part, pattern)
        if problem:
            message = f"route.topic.replacement is invalid: {problem}; the task fails at the first event."
            near = did_you_mean(part.group, sorted(pattern.names)) if isinstance(part.group, str) else ""
            yield Hit(router.prefix + option, message, near)


def _problem(part: ReplacementPart, pattern: Pattern) -> str:
    if part.is_malformed:
        return f"{part.text} needs a group or an escape"
    if part.group is None:
        return ""
    is_there = part.group in pattern.names if isinstance(part.group, str) else part.group <= pattern.groups
    return "" if is_there else f"the regular expression has no group {part.group!r}"


@book.router_rule("CC313", ERROR)
def invalid_topic_name(config: Config, router: Router) -> Hits:
    replacement = router.get("route.topic.replacement", _DEFAULT_REPLACEMENT)
    plain = "".join(part.text for part in read_replacement(replacement) if not part.is_malformed)
    wrong = sorted(set(re.sub(r"[A-Za-z0-9._-]", "", plain)))
    if wrong and not is_reference(router.options.get("route.topic.replacement", "")):
        message = f"a topic name cannot contain {' '.join(map(repr, wrong))}: the broker refuses every event."
        yield Hit(
            f"{router.prefix}route.topic.replacement", message, "Use letters, digits, dots, hyphens and underscores."
        )
    elif len(plain) > 249:
        message = (
            f"the topic name has {len(plain)} characters, and at most 249 are allowed: the broker refuses every event."
        )
        yield Hit(f"{router.prefix}route.topic.replacement", message, "Shorten the name.")


@book.router_rule("CC314", NOTE)
def one_topic_for_all_events(config: Config, router: Router) -> Hits:
    replacement = router.get("route.topic.replacement", _DEFAULT_REPLACEMENT)
    if "$" not in replacement:
        message = "all events go to one topic: the replacement contains no group."
        yield Hit(
            f"{router.prefix}route.topic.replacement",
            message,
            "Keep it if one topic is intended; otherwise use ${routedByValue}.",
        )


@book.router_rule("CC315", NOTE)
def topic_from_the_row(config: Config, router: Router) -> Hits:
    replacement = router.get("route.topic.replacement", _DEFAULT_REPLACEMENT)
    if [part.group is not None and not part.is_misnamed for part in read_replacement(replacement)] == [True]:
        message = "the row alone sets the topic: every writer of the table can choose any topic."
        yield Hit(f"{router.prefix}route.topic.replacement", message, "Add a fixed prefix before the group.")


@book.router_rule("CC339", ERROR)
def regex_of_one_type(config: Config, router: Router) -> Hits:
    if _is_of_one_type(router):
        only = only_text(router.get("route.topic.regex"))
        message = (
            f"the regular expression matches {only!r} only: events of other types go to a topic named after the type."
        )
        yield Hit(
            f"{router.prefix}route.topic.regex", message, f"Write {_DEFAULT_REGEX}, or a replacement without a group."
        )


def _is_of_one_type(router: Router) -> bool:
    """Return whether the regex matches one text only, although the replacement contains a group."""
    parts = read_replacement(router.get("route.topic.replacement", _DEFAULT_REPLACEMENT))
    tells = any(part.group is not None for part in parts)
    return tells and only_text(router.get("route.topic.regex", _DEFAULT_REGEX)) is not None


@book.router_rule("CC316", NOTE)
def regex_not_matching_every_value(config: Config, router: Router) -> Hits:
    regex = router.get("route.topic.regex", _DEFAULT_REGEX)
    probes = ("order", "Order", "order-line", "order_line", "order.line")
    if not _is_of_one_type(router) and any(matches(regex, probe) is False for probe in probes):
        message = (
            "a value that the regular expression does not match as a whole becomes the topic name, without an error."
        )
        yield Hit(
            f"{router.prefix}route.topic.regex", message, "Check that the expression matches every aggregate type."
        )
