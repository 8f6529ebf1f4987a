"""The statements of a file by their names, as a driver takes them. Pure."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cdc_outbox.databases.drivers import AsyncDriver, Driver
from cdc_outbox.databases.sql import load


class NamedStatements:
    """The statements of one file in a driver's dialect.

    Args:
        names: What the statements call tables and columns, quoted.
    """

    def __init__(self, driver: Driver | AsyncDriver, file: str, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        self._style = driver.style
        self._has_arrays = driver.dialect.features.has_arrays
        self._statements = load(driver.dialect, file)

    def steps(
        self, name: str, names: Mapping[str, str] | None = None, parameters: Mapping[str, Any] = MappingProxyType({})
    ) -> tuple[str, ...]:
        """Return what is executed one by one for a statement.

        Args:
            names: Beside those of all statements, or in their place.
            parameters: In the place of a tuple's name stand as many parameters as it has items.
        """
        known, statement = {**self.names, **(names or {})}, self._statements[name]
        for each, numbered in _numbered(parameters).items():
            statement = statement.with_parameters(each, numbered)
        return tuple(step.render(known, self._style) for step in statement.steps())

    def all_steps(self) -> dict[str, tuple[str, ...]]:
        """Return the steps of all statements, for who executes them often."""
        return {name: self.steps(name) for name in self._statements}

    def values(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return parameters as the dialect takes them.

        Where it has no arrays, a statement's lists, which are as long as each other, become one text of JSON, ``rows``:
        an object for each row; null where a statement takes lists and got none. Each item of a tuple is a parameter.
        """
        for name, numbered in _numbered(parameters).items():
            parameters = {**parameters, **numbered}
            del parameters[name]
        if self._has_arrays:
            return parameters
        lists = {name: each for name, each in parameters.items() if isinstance(each, list)}
        if not lists:
            return {"rows": None, **parameters}
        rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        others = {name: each for name, each in parameters.items() if name not in lists}
        return {**others, "rows": json.dumps(rows, ensure_ascii=False)}


def _numbered(parameters: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the items of each tuple, by names such as ``ids_0``."""
    tuples = {name: each for name, each in parameters.items() if isinstance(each, tuple)}
    return {name: {f"{name}_{number}": item for number, item in enumerate(each)} for name, each in tuples.items()}
