"""Secrets that are planted, where they stand, and what they look like where they are found."""

import json
from urllib.parse import quote

from hypothesis import strategies as st

LETTERS = st.sampled_from("abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789!$%&*+=~^.,:/'\"\\@#?-")
# The beginning is nowhere else, so that what is found is a secret and not a word.
SECRETS = st.text(LETTERS, min_size=7, max_size=20).map("zQ7x{}".format)
PLAIN = st.from_regex(r"zQ8x[A-Za-z0-9~._-]{7,20}", fullmatch=True)
HELD = {
    "database.password": "{}",
    "producer.override.sasl.jaas.config": 'x.PlainLoginModule required username="me" password="{}";',
    "value.converter.basic.auth.user.info": "me:{}",
    "value.converter.schema.registry.url": "https://me:{}@registry:8081",
    "producer.override.ssl.keystore.password": "{}",
    "producer.override.ssl.keystore.key": "{}",
    "signal.kafka.consumer.sasl.oauthbearer.token": "{}",
}
"""Options of a connector that somebody may have written a secret into by hand, and how."""
MANY = st.lists(SECRETS, min_size=len(HELD), max_size=len(HELD), unique=True)


def held_by(option: str, secret: str) -> str:
    """Return a value as it stands there: inside of quotation marks or a URL a secret is written another way."""
    if option.endswith(".url"):
        return HELD[option].format(quote(secret, safe=""))
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"') if option.endswith(".config") else secret
    return HELD[option].format(escaped)


def forms_of(secret: str) -> set[str]:
    """Return what a secret looks like, written this way or another."""
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"')
    written = {secret, quote(secret), quote(secret, safe=""), escaped}
    return written | {json.dumps(form)[1:-1] for form in written} | {repr(form)[1:-1] for form in written}


def refuse_secrets(said: str, secrets: list[str]) -> None:
    assert "Traceback" not in said
    for secret in secrets:
        for form in forms_of(secret):
            assert form not in said
