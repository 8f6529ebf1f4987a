"""A case of a rule of the linter: a clean configuration, what is changed in it, and where that is found."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.lint import NEWEST, Config, Version
from tests.support.configs import changed, config_of

EMPTY: Mapping[str, str | None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A clean configuration, what is changed in it, and where the finding shall stand.

    Args:
        changes: Options by their names; ``None`` takes one away.
    """

    code: str
    at: str
    changes: Mapping[str, str | None] = field(default_factory=dict)
    kind: DatabaseKind = DatabaseKind.POSTGRESQL
    version: Version = NEWEST

    def __str__(self) -> str:
        return f"{self.code}-{self.kind.name.lower()}-{self.at}"

    def config(self) -> Config:
        return config_of(changed(self.kind, self.changes), version=self.version)


def case(
    code: str,
    at: str,
    value: str | None,
    kind: DatabaseKind = DatabaseKind.POSTGRESQL,
    more: Mapping[str, str | None] = EMPTY,
) -> Case:
    return Case(code=code, at=at, kind=kind, changes={at: value, **more})
