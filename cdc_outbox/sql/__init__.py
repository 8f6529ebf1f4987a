"""Named statements in ``.sql`` files, one folder a dialect.

``-- name: add`` starts a statement; ``{outbox}`` stands for an identifier that is quoted already, ``:payload`` for
a parameter. A cast is written ``cast(:id as uuid)``, never ``::``. Nothing else in the text is touched.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_TOKEN = re.compile(r"\{(\w+)\}|:([a-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as it stands in the file."""

    text: str

    def render(self, names: Mapping[str, str], parameter: Callable[[str], str] | None = None) -> str:
        """Put in the identifiers, and the parameters as the driver writes them; for such drivers a ``%`` is doubled."""

        def put_in(token: re.Match[str]) -> str:
            if token[1]:
                return names[token[1]].replace("%", "%%") if parameter else names[token[1]]
            return parameter(token[2]) if parameter else token[0]

        return _TOKEN.sub(put_in, self.text)


@cache
def load(dialect: str, file: str) -> Mapping[str, Statement]:
    """Return the statements of ``sql/<dialect>/<file>.sql`` by name."""
    parts = _NAME.split(files(__name__).joinpath(dialect, f"{file}.sql").read_text(encoding="utf-8"))
    return {name: Statement(text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}
