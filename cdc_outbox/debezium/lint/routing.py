"""From a row to a topic's name: the router's regex and its replacement."""

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
def regex_that_cannot_be_read(config: Config, router: Router) -> Hits:
    option = "route.topic.regex"
    reason = refusal(router.get(option, _DEFAULT_REGEX))
    if reason:
        yield Hit(router.prefix + option, f"no regular expression: {reason}; the task fails.", "Correct it.")


@book.router_rule("CC312", ERROR)
def group_that_is_not_there(config: Config, router: Router) -> Hits:
    try:
        pattern = read_regex(router.get("route.topic.regex", _DEFAULT_REGEX))
    except (InvalidRegexError, UnknownRegexError):
        return
    replacement = router.get("route.topic.replacement", _DEFAULT_REPLACEMENT)
    option = "route.topic.replacement" if "route.topic.replacement" in router.options else "route.topic.regex"
    if is_reference(replacement):
        return
    for reference in _REFERENCE.finditer(replacement):
        problem = _wrong(reference, pattern)
        if problem:
            message = f"{problem} in the topic's replacement: the task fails at the first event."
            yield Hit(router.prefix + option, message, did_you_mean(reference[1] or "", sorted(pattern.names)))


def _wrong(reference: re.Match[str], pattern: Pattern) -> str:
    if reference[1] is not None:
        return "" if reference[1] in pattern.names else f"no group of the regex is called {reference[1]!r}"
    if reference[2] is not None:
        return "" if int(reference[2]) <= pattern.groups else f"the regex has no group {reference[2]}"
    return "" if len(reference[0]) == 2 else f"a {reference[0]} stands alone"


@book.router_rule("CC313", ERROR)
def topic_that_is_none(config: Config, router: Router) -> Hits:
    replacement = router.get("route.topic.replacement", _DEFAULT_REPLACEMENT)
    plain = _REFERENCE.sub(lambda found: found[0][1:] if found[0].startswith("\\") else "", replacement)
    wrong = sorted(set(re.sub(r"[A-Za-z0-9._-]", "", plain)))
    if wrong and not is_reference(router.options.get("route.topic.replacement", "")):
        message = f"a topic's name holds no {' '.join(map(repr, wrong))}: the broker refuses every event."
        yield Hit(f"{router.prefix}route.topic.replacement", message, "Letters, digits, dots, hyphens, underscores.")
    elif len(plain) > 249:
        message = "a topic's name has at most 249 characters: the broker refuses every event."
        yield Hit(f"{router.prefix}route.topic.replacement", message, "Shorten it.")


@book.router_rule("CC314", NOTE)
def one_topic_for_all(config: Config, router: Router) -> Hits:
    replacement = router.get("route.topic.replacement", _DEFAULT_REPLACEMENT)
    if "$" not in replacement:
        message = "every event goes to one topic, whatever it is about."
        yield Hit(f"{router.prefix}route.topic.replacement", message, "That is right if you meant it.")


@book.router_rule("CC315", NOTE)
def topic_that_the_row_names(config: Config, router: Router) -> Hits:
    replacement = router.get("route.topic.replacement", _DEFAULT_REPLACEMENT)
    if re.fullmatch(r"\$(\{[A-Za-z][A-Za-z0-9]*\}|[0-9])", replacement):
        message = "the row alone names the topic: who writes the table writes to any topic."
        yield Hit(f"{router.prefix}route.topic.replacement", message, "Put something of your own before the group.")


@book.router_rule("CC339", ERROR)
def regex_of_one_type(config: Config, router: Router) -> Hits:
    if _is_of_one_type(router):
        only = only_text(router.get("route.topic.regex"))
        message = f"the regex matches {only!r} alone: events of any other type go to a topic of that type's bare name."
        yield Hit(f"{router.prefix}route.topic.regex", message, f"Write {_DEFAULT_REGEX}, or the topic itself.")


def _is_of_one_type(router: Router) -> bool:
    """Tell whether the regex matches one text alone, although the replacement tells types apart."""
    references = _REFERENCE.finditer(router.get("route.topic.replacement", _DEFAULT_REPLACEMENT))
    tells = any(found[1] is not None or found[2] is not None for found in references)
    return tells and only_text(router.get("route.topic.regex", _DEFAULT_REGEX)) is not None


@book.router_rule("CC316", NOTE)
def values_that_the_regex_lets_pass(config: Config, router: Router) -> Hits:
    regex = router.get("route.topic.regex", _DEFAULT_REGEX)
    probes = ("order", "Order", "order-line", "order_line", "order.line")
    if not _is_of_one_type(router) and any(matches(regex, probe) is False for probe in probes):
        message = "what the regex does not match as a whole goes to a topic of its own name, without a word."
        yield Hit(f"{router.prefix}route.topic.regex", message, "Make sure that it matches every aggregate type.")
