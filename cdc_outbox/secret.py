"""Which options are secrets, and whether one stands there itself."""

import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"password|passphrase|secret|token(?!\.endpoint)|credential|jaas|(private|keystore)\.key", re.IGNORECASE
)
_REFERENCE = re.compile(r"\$\{[^}:]+:[^}]+\}")
_IN_URL = re.compile(r"://[^/@\s:]*:[^/@\s]+@")
_USER_INFO = re.compile(r"user\.info$|api\.?key", re.IGNORECASE)
_ADDRESS = re.compile(r"connection\.(string|url)$", re.IGNORECASE)
"""Where a login may stand inside; one that shows none is no secret."""
_GIVEN = re.compile(r"((?:password|secret|token)\w*\s*=\s*[\"']?)(?!\$\{)[^\"'\s;,]+", re.IGNORECASE)
_LONG = 4
"""A secret of fewer letters stands in too many words."""
MASK = "********"
_ASSIGNED = re.compile(r"(password|secret|token)\w*\s*=\s*[\"']?[^\"'\s;]", re.IGNORECASE)


def shows_password(url: str) -> bool:
    """Tell whether a URL, or a connection string, has a password in it that is no reference."""
    return bool(_IN_URL.search(_REFERENCE.sub("", url)))


def is_secret(option: str) -> bool:
    """Tell whether nobody should see what a connector's option stands for."""
    return bool(_SECRET.search(option) or _USER_INFO.search(option) or _ADDRESS.search(option))


def shows_secret(option: str, value: str) -> bool:
    """Tell whether a connector's option holds a secret itself, and not a reference that the worker resolves."""
    if not _SECRET.search(option) or _REFERENCE.fullmatch(value):
        return False
    # A JAAS line is more than its password: a reference inside it will do, and Kerberos needs none.
    is_jaas_line = "jaas" in option.lower() and "LoginModule" in value
    return not is_jaas_line or bool(_ASSIGNED.search(_REFERENCE.sub("", value)))


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """Return a text in which no secret of a configuration stands; an error of Java's may quote an option's value."""
    found = (value for option, value in options.items() if len(value) >= _LONG and hides(option, value))
    for value in sorted(found, key=len, reverse=True):
        text = text.replace(value, MASK)
    return _GIVEN.sub(rf"\1{MASK}", text)


def hides(option: str, value: str) -> bool:
    """Tell whether a value had better not be shown; of what is no secret, little is hidden too much."""
    return (
        shows_secret(option, value)
        or shows_password(value)
        or bool(_USER_INFO.search(option) and not _REFERENCE.fullmatch(value))
        or bool(_ASSIGNED.search(_REFERENCE.sub("", value)))
    )
