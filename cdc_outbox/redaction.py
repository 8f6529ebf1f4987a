"""Secrets and how they are hidden; texts of others, made safe to show on a terminal, in a log, in a script.

Options are secrets by their names, and a value that only refers to one is none.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import quote, unquote

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0, DEL and C1, what ends a line, what turns the direction of writing, and halves of a surrogate pair."""

_AT_THE_START = re.compile(r"^([^\S\n]*)::", re.MULTILINE)
_ANYWHERE = re.compile(r"##(?=\[|vso\[)")
"""Where a runner of GitHub's or Azure's looks for a command."""


def visible(text: str) -> str:
    """Return a text in which nothing moves the cursor, ends the line, turns the direction or commands a CI runner."""
    return _ANYWHERE.sub(r"#\\x23", visible_controls(text))


def shortened(text: str, limit: int = 100) -> str:
    """Return a text of at most so many characters; one that was cut ends in an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def counted(count: int, noun: str) -> str:
    """Return how many there are: ``1 event``, ``2,000 events``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def either(words: Sequence[str]) -> str:
    """Return a choice: ``a``, ``a or b``, ``one of a, b or c``."""
    *others, last = words
    if not others:
        return last
    return f"{'one of ' if others[1:] else ''}{', '.join(others)} or {last}"


def enumerated(names: Sequence[str], limit: int = 3, *, total: int | None = None) -> str:
    """Return the first of some names, and how many more there are: ``a, b and 2 more``.

    Args:
        total: How many there are, where the names are the first of them.
    """
    left = (len(names) if total is None else total) - min(limit, len(names))
    more = f" and {left:,} more" if left > 0 else ""
    return f"{', '.join(names[:limit])}{more}"


def visible_controls(text: str) -> str:
    """Return the same but for commands: a text that another program reads, and that must stay what it is for it."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_lines(text: str, visible: Callable[[str], str] = visible) -> str:
    r"""Return a text whose lines are each :func:`visible`; ``\n`` and ``\t`` stay, ``\r\n`` ends a line too."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in lines)


def without_commands(text: str) -> str:
    """Return lines of which none is a workflow command of GitHub's, as which it takes ``::`` behind blanks, too."""
    return _AT_THE_START.sub(r"\1:\\x3a", text)


def safe_json(content: object, *, indent: int | None = None, default: Callable[[object], object] | None = None) -> str:
    """Return JSON in UTF-8 that a terminal and a CI runner read as nothing but text."""
    text = json.dumps(content, indent=indent, default=default, ensure_ascii=False)
    escaped = _CONTROLS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)
    return _ANYWHERE.sub(r"#\\u0023", escaped)


def has_controls(text: str) -> bool:
    """Return whether :func:`visible` would change the text."""
    return _CONTROLS.search(text) is not None


# Repetitions have bounds here: without them each place of a long text looks at all that follows it.
REFERENCE = re.compile(r"\$\{([^}:]{1,100}):([^}]{1,1000})\}")
"""What the worker resolves: a provider, and what it is asked for."""

_SECRET = re.compile(
    r"password|passwd|passphrase|(^|[._-])(pass|pwd)($|[._-])|secret|token(?!\.endpoint)|credential|jaas"
    r"|(private|keystore|encryption)[._-]?key|key(store)?\.pem",
    re.IGNORECASE,
)
_HIDDEN = re.compile(r"access[._-]?key|certificate\.chain$|truststore\.certificates$|\.pem$", re.IGNORECASE)
"""Options that may be written down but are not shown: certificates, which Connect types as passwords, half a login."""
_USER_INFO = re.compile(r"user\.info$|api\.?key", re.IGNORECASE)
_ADDRESS = re.compile(r"connection\.(string|url)$", re.IGNORECASE)
"""Where a login may stand inside; one that shows none is no secret."""
_LOGIN = re.compile(
    r"://[^/@\s:]{0,128}:(?!\d{1,5}(?:[/?,;]|$)|\$\{[^}]{1,128}\}@)((?:(?!://)[^@\s])+(?:@[^@\s/,]*)*)@"
)
"""A login in a URL. A port and a path before an @ are none, nor is a reference.

No form goes beyond the beginning of the next one: else a long value would be read to its end once for each of them.
"""
_ORACLE = re.compile(
    r"(?<=jdbc:oracle:)(?:thin|oci):[^/@\s]{0,128}/(?!\$\{[^}]{1,128}\}@)(\"[^\"]{1,256}\"|(?:(?!jdbc:)[^@\s])+)@",
    re.IGNORECASE,
)
_WORD = r"(?:password|passwd|passphrase|\bpass\b|pwd|secret|token)\w{0,64}"
_GIVEN = re.compile(rf"({_WORD}\s*=\s*[\"']?)(?!\$\{{)[^\"'\s;,]+", re.IGNORECASE)
_QUOTED = re.compile(
    rf"({_WORD}\\{{0,3}}[\"']\s{{0,8}}:\s{{0,8}}b?(\\{{0,3}}[\"']))(?!\$\{{)(?:(?!\2)(?:\\[\s\S]|[^\\]))+",
    re.IGNORECASE,
)
"""The same as JSON and Python write it."""
_PASSWORD = re.compile(rf"""{_WORD}\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^"'\s;,&]+))""", re.IGNORECASE)
_ASSIGNED = re.compile(rf"{_WORD}\s*=\s*[\"']?[^\"'\s;]", re.IGNORECASE)
_HEADER = re.compile(
    r"((?:authorization[\"']?\s*[:=]\s*[\"']?basic|\bbearer)\s+)(?!\$\{|authenti|authori|token\b)([\w.~+/-]{6,}=*)",
    re.IGNORECASE,
)
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_LONG = 4
"""A secret of fewer letters stands in too many words."""
MASK = "********"


def shows_password(url: str) -> bool:
    """Return whether a URL, or a connection string, has a password in it that is no reference."""
    text = REFERENCE.sub("", url)
    return bool(_LOGIN.search(text) or _ORACLE.search(text))


def is_secret(option: str) -> bool:
    """Return whether the value that a connector's option stands for must be hidden."""
    return bool(_SECRET.search(option) or _USER_INFO.search(option) or _ADDRESS.search(option))


def shows_secret(option: str, value: str) -> bool:
    """Return whether a connector's option holds a secret itself, and not a reference that the worker resolves."""
    if not _SECRET.search(option) or REFERENCE.fullmatch(value):
        return False
    # A JAAS line is more than its password: a reference inside it will do, and Kerberos needs none.
    is_jaas_line = "jaas" in option.lower() and "LoginModule" in value
    return not is_jaas_line or bool(_ASSIGNED.search(REFERENCE.sub("", value)))


class SecretRedactor:
    """Remember secrets, and take them out of what is said: an error of Java's may quote an option's value."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def remember(self, *secrets: str) -> None:
        """Take these out from now on; one that is too short stands in too many words."""
        self._known.update(secret for secret in secrets if len(secret) >= _LONG)

    def remember_options(self, options: Mapping[str, str]) -> None:
        """Take out every secret of a connector's configuration, and what is a secret within a value."""
        for option, value in options.items():
            if hides(option, value):
                self.remember(value, *_parts(value))

    def over(self, text: str) -> str:
        """Return a text in which none of them stands, nor what a text itself calls a secret."""
        for secret in sorted(self._known, key=len, reverse=True):
            for form in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote(secret)):
                text = text.replace(form, MASK)
        for written, masked in (
            (_KEY, MASK),
            (_LOGIN, f"://{MASK}@"),
            (_ORACLE, f"{MASK}@"),
            (_HEADER, rf"\1{MASK}"),
            (_GIVEN, rf"\1{MASK}"),
            (_QUOTED, rf"\1{MASK}"),
        ):
            text = written.sub(masked, text)
        return text


def _parts(value: str) -> Iterator[str]:
    """Yield the secrets inside a value: behind a user's name, in a URL, after a word that says so."""
    for form in (_LOGIN, _ORACLE):
        yield from (
            part for found in form.finditer(value) for part in (found[1], found[1].strip('"'), unquote(found[1]))
        )
    yield from (found[2] for found in _HEADER.finditer(value))
    for found in _PASSWORD.finditer(value):
        written = found[1] or found[2] or found[3] or ""
        # Who has read it says it without the backslashes that it was written with.
        yield from (written, _ESCAPED.sub(r"\1", written))
    user, colon, password = value.partition(":")
    if colon and "/" not in user:
        yield password


def hides(option: str, value: str) -> bool:
    """Return whether a value had better not be shown; of what is no secret, little is hidden too much."""
    text = REFERENCE.sub("", value)
    return (
        shows_secret(option, value)
        or shows_password(value)
        or any(form.search(option) and not REFERENCE.fullmatch(value) for form in (_USER_INFO, _HIDDEN))
        or any(form.search(text) for form in (_ASSIGNED, _HEADER, _KEY))
    )
