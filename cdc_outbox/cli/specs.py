"""Specs of several pipelines, from files and folders."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from cdc_outbox.cli.contexts_file import CONTEXTS_FILE
from cdc_outbox.cli.options import read_spec
from cdc_outbox.connect.lint import compare
from cdc_outbox.connect.lint.specs import rendered
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import errors_in
from cdc_outbox.spec import Spec

specs_argument = click.argument("paths", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="SPEC...")


def read_specs(paths: Sequence[Path]) -> dict[Path, Spec]:
    """Read specs, in the order in which they are named; a folder stands for its YAML files, by name.

    Raises:
        ConfigError: One cannot be read or is wrong, a folder has none, or two do not go together.
    """
    found: dict[Path, Spec] = {file: read_spec(file) for file in files_of(paths)}
    _refuse_twins(found)
    findings = errors_in(tuple(compare([rendered(spec) for spec in found.values()])))
    if findings:
        raise ConfigError("the specs do not go together", findings=findings, hint="Correct one of them.")
    return found


def files_of(paths: Iterable[Path], *, suffixes: Sequence[str] = (".yaml", ".yml")) -> list[Path]:
    """Return files in the order in which they are named, each once; a folder stands for those that end so, by name.

    Raises:
        ConfigError: A folder has none.
    """
    return list(dict.fromkeys(file for path in paths for file in _files(path, suffixes)))


def _files(path: Path, suffixes: Sequence[str]) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in suffixes and file.name != CONTEXTS_FILE)
    if not files:
        ends = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise ConfigError(f"{path} has no spec in it", hint=f"A spec's name ends in {ends}.")
    return files


def _refuse_twins(found: dict[Path, Spec]) -> None:
    files: dict[str, Path] = {}
    for path, spec in found.items():
        if spec.name in files:
            raise ConfigError(f"{files[spec.name]} and {path} are both the pipeline {spec.name}", field="name")
        files[spec.name] = path
