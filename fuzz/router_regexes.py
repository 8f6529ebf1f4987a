"""Random expressions and replacements for topics, most of which match the text that they are made from."""

import re
from random import Random

TEXTS = (
    "User",
    "order",
    "a b",
    "",
    "Ärger",
    "x.y-z_1",
    "a\nb",
    "line\r\n",
    "end\u2028",
    "\U0001f600",
    "$1\\",
    "aaab",
    "ab1",
)

FIXED = (
    "(?<routedByValue>.*)",
    "(?<routedByValue>.+)",
    "(.*)",
    "([A-Z])(.*)",
    "[a-z]+",
    "User|order",
    "a|ab|.*",
    ".*?",
    "(?:a)*b",
    "(a+)(b)?",
    "^(.*)$",
    "\\A(\\w+)\\z",
    "\\Qx.y\\E(-z)?.*",
    "(?=U)(.*)",
    "(?!order).*",
    "(?<first>.)(?<rest>.*)",
    "[^\\s]*",
    "[\\w.-]*",
    "\\x55ser",
    "\\u0055ser",
    "(a)|(b)|(.*)",
    "((a)|b)*1?",
    "(?:(a)|(b)|.)+",
    "{2}(?<routedByValue>.*)",
    "order|{1,2}?U(?:{2})ser|.*{3}",
    "",
)
BROKEN = (
    "[[a-z]",
    "(",
    ")",
    "a)",
    "*a",
    "a**",
    "[a",
    "a{2",
    "{",
    "x{b}",
    "(?<n>a)(?<n>b)",
    "(?<1>a)",
    "a\\",
    "[b-a]",
    "a{3,2}",
    "(?",
    "|*",
    "{2}*",
    "{,2}",
)
"""What Java refuses, too."""
OUTSIDE = (
    *("[a-z&&[^b]]*", "\\p{Alpha}+", "a++", "(?i)user", "\\R", "\\h*", "(?<=a)b", "(?>a)", "(.)\\1", "[a[b]]", "\\b.*"),
    *(".*\\Z", "(?:a*)*", "(?s).*"),
)
"""What only the real one reads."""
REPLACEMENTS = (
    "outbox.event.${routedByValue}",
    "topic.$0",
    "all",
    "a\\$b\\\\",
    "",
    "${rest}.${first}",
    "$1.$2",
    "$1",
    "$10",
    " blanks\n",
    "x-$01",
)
BROKEN_REPLACEMENTS = ("$", "${", "${}", "${1a}", "${nogroup}", "$9", "a\\", "$x", "${routedByValue", "${a b}")


def random_regex(random: Random, text: str) -> str:
    """Return an expression that is likely to match a text."""
    pieces = []
    for character in text:
        piece = _one(random, character)
        if random.random() < 0.25:
            piece = f"({piece})" if random.random() < 0.6 else f"(?:{piece}|{_one(random, 'q')})"
        if random.random() < 0.25:
            piece += random.choice(["+", "*", "?", "{1}", "{1,}", "{0,2}", "+?", "*?", "??", "{1,3}?"])
        pieces.append(piece)
    if pieces and random.random() < 0.4:
        start = random.randrange(len(pieces))
        end = random.randrange(start, len(pieces)) + 1
        pieces[start:end] = [f"({''.join(pieces[start:end])})"]
    whole = "".join(pieces)
    shape = random.random()
    if shape < 0.15:
        return f"{whole}|{_one(random, 'z')}"
    if shape < 0.3:
        return f"(?<routedByValue>{whole})"
    if shape < 0.4:
        return f"^{whole}$"
    return f"{whole}.*" if shape < 0.6 else whole


def _one(random: Random, character: str) -> str:
    literal = re.sub(r"([^\w\s]|_)", r"\\\1", character, flags=re.ASCII) if character.isascii() else character
    choices = [literal, literal, literal]
    if character not in "\n\r\u2028":
        choices.append(".")
    if character.isascii() and character.isalnum():
        choices += ["\\w", "[a-zA-Z0-9]", f"[{character}]", f"[^{'x' if character != 'x' else 'y'}]", "[\\w-]"]
    if character.isspace() and character.isascii():
        choices += ["\\s", "[\\s]", "\\W"]
    choices.append("\\D" if not character.isdigit() else "\\d")
    return random.choice(choices)
