"""Connectors that are named on the command line: by their name, or by the spec that describes them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import filter as matching
from pathlib import Path

from cdc_outbox.cli.files import files_of
from cdc_outbox.cli.options import read_spec
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.errors import ConnectorNotFoundError
from cdc_outbox.spec import Spec
from cdc_outbox.text_files.document import suggestion


def names_of(connectors: Sequence[str], client: ConnectClient, *, optional: Collection[str] = ()) -> list[str]:
    """Return the names, each of which exists; where none is named, of all that there are.

    ``orders-*`` stands for all whose names begin so, as a shell would write it.

    Args:
        optional: Names that need not exist.

    Raises:
        ConnectorNotFoundError: One does not, with those that do.
    """
    there = client.find_names()
    names: dict[str, None] = {}
    for name in map(name_of, each_of(connectors)):
        found = [name] if name in there else matching(there, name)
        if not found and name not in optional:
            refuse_unknown(name, there)
        names |= dict.fromkeys(found)
    return list(names) if names or optional else there


def one_name_of(connector: str, client: ConnectClient) -> str:
    """Return the name, which exists, of the one connector that is meant.

    Raises:
        ConnectorNotFoundError: It does not, with those that do.
    """
    name = name_of(connector)
    refuse_unknown(name, client.find_names())
    return name


def name_of(connector: str) -> str:
    """Return a connector's name, from its spec where that is named."""
    return read_spec(Path(connector)).name if is_spec(connector) else connector


def specs_of(connectors: Sequence[str]) -> dict[str, Spec]:
    """Return the specs that are named, by their pipelines' names."""
    specs = (read_spec(Path(connector)) for connector in each_of(connectors) if is_spec(connector))
    return {spec.name: spec for spec in specs}


def each_of(connectors: Iterable[str]) -> Iterator[str]:
    """Yield connectors, and in place of a folder the specs in it; a connector may be called as a folder is here."""
    for connector in connectors:
        if "/" in connector and Path(connector).is_dir():
            yield from map(str, files_of([Path(connector)]))
        else:
            yield connector


def is_spec(connector: str) -> bool:
    """Whether a spec is named, and no connector: it ends as a spec does, or is a file."""
    path = Path(connector)
    return path.suffix in {".yaml", ".yml"} or path.is_file()


def refuse_unknown(name: str, there: Sequence[str]) -> None:
    """Refuse a name that is none of those that there are.

    Raises:
        ConnectorNotFoundError: It is none.
    """
    if name not in there:
        raise not_found(name, there)


def not_found(name: str, there: Sequence[str]) -> ConnectorNotFoundError:
    """Return the error of a connector that does not exist; the hint lists the existing ones."""
    return ConnectorNotFoundError(
        f"there is no connector {name!r}", hint=suggestion(name, list(there), "Existing connectors")
    )
