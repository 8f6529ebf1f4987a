"""Rules about topic names: the router's regular expression and its replacement."""

import re

from cdc_outbox.debezium.config import Config, Router, is_reference
from cdc_outbox.debezium.java_regex import InvalidRegexError, matches, only_text, read_regex, refusal
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, Hit, Hits, Rulebook
from cdc_outbox.debezium.regex_program import Pattern, UnknownRegexError
from cdc_outbox.text_files.document import did_you_mean

book = Rulebook()

_DEFAULT_REGEX = "(?<routedByValue>.*)"
_DEFAULT_REPLACEMENT = "outbox.event.${routedByValue}"
_REFERENCE = re.compile(r"\\.|\$\{([^}]*)\}|\$([0-9])|\$|\\", re.DOTALL)


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
    for reference in _REFERENCE.finditer(replacement):
        problem = _problem(reference, pattern)
        if problem:
            message = f"route.topic.replacement is invalid: {problem}; the task fails at the first event."
            yield Hit(router.prefix + option, message, did_you_mean(reference[1] or "", sorted(pattern.names)))


def _problem(reference: re.Match[str], pattern: Pattern) -> str:
    if reference[1] is not None:
        return "" if reference[1] in pattern.names else f"the regular expression has no group {reference[1]!r}"
    if reference[2] is not None:
        return "" if int(reference[2]) <= pattern.groups else f"the regular expression has no group {reference[2]}"
    return "" if len(reference[0]) == 2 else f"{reference[0]} needs a group or an escape"


@book.router_rule("CC313", ERROR)
def invalid_topic_name(config: Config, router: Router) -> Hits:
    replacement = router.get("route.topic.replacement", _DEFAULT_REPLACEMENT)
    plain = _REFERENCE.sub(lambda found: found[0][1:] if found[0].startswith("\\") else "", replacement)
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
    if re.fullmatch(r"\$(\{[A-Za-z][A-Za-z0-9]*\}|[0-9])", replacement):
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
    references = _REFERENCE.finditer(router.get("route.topic.replacement", _DEFAULT_REPLACEMENT))
    tells = any(found[1] is not None or found[2] is not None for found in references)
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
