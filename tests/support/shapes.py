"""Random JSON objects, half of them of lists and numbers that Debezium's expansion trips over."""

import json
import random
from typing import Any

_KEYS = ("a", "b", "c-d", "ü", "😀", "x.y", "A", " ", "__x", "1")
_NUMBERS = (0, 1, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, 1.5, 1e22, 1e-7, 5e-324, 1.10, 1.0)
_SCALARS = (None, True, False, "", "text", '😀"\\\n', "null", "{}")
_EQUALS: tuple[tuple[Any, ...], ...] = (
    (1, 2, None),
    ("a", None),
    (1.5, 2.5),
    ([1], [2], [3, 4]),
    ([], ["x"]),
    ([], [1]),
    ({"q": 1}, {"q": 2}, None),
    ([{"z": 1}], [{"z": 2}, {"z": None}], None),
)
"""Values that a list may have, or one field of its objects; some of them not beside each other."""


def object_text(number: int) -> str:
    """Return the JSON object of a number."""
    chance = random.Random(number)  # noqa: S311 - the same objects every time
    return json.dumps({chance.choice(_KEYS): _value(chance, 3) for _ in range(chance.randint(0, 4))})


def _value(chance: random.Random, depth: int) -> Any:
    kind = chance.random()
    if depth == 0 or kind < 0.35:
        return chance.choice(_NUMBERS if chance.random() < 0.4 else _SCALARS)
    if kind < 0.6:
        return {chance.choice(_KEYS): _value(chance, depth - 1) for _ in range(chance.randint(0, 4))}
    size = chance.randint(0, 3)
    if kind < 0.7:
        return [_value(chance, depth - 1) for _ in range(size)]
    if kind < 0.85:
        equals = chance.choice(_EQUALS)
        return [chance.choice(equals) for _ in range(size)]
    fields = {key: chance.choice(_EQUALS) for key in chance.sample(_KEYS, chance.randint(0, 3))}
    return [{key: chance.choice(fields[key]) for key in chance.sample([*fields], len(fields))} for _ in range(size)]
