"""Files as the commands read and write them."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from cdc_outbox.cli.contexts_file import CONTEXTS_FILE
from cdc_outbox.cli.output import say
from cdc_outbox.errors import ConfigError
from cdc_outbox.text_files.document import text_of

STDIN = "-"


def complete_file(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the names of files where an argument may be one, and is no path to click."""
    return [CompletionItem(incomplete, type="file")]


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
        raise ConfigError(f"{path} contains no spec", hint=f"A spec's name ends in {ends}.")
    return files


def read_text_of(name: str) -> str | None:
    """Return what a file says, no more than is needed to see that it is too large; ``None`` if it is no text.

    Args:
        name: Of the file; :data:`STDIN` is standard input.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        if name == STDIN:
            return text_of(sys.stdin.buffer)
        with Path(name).open("rb") as file:
            return text_of(file)
    except UnicodeDecodeError:
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "invalid file name"
        raise ConfigError(f"{name} cannot be read: {reason}") from error


def write_new(text: str, new_file: Path | None) -> None:
    """Write a text to a file that does not exist yet, and report that, or to standard output.

    Raises:
        ConfigError: The file exists, or cannot be written.
    """
    if new_file is None:
        say(text, nl=False, script=True)
        return
    try:
        with new_file.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(
            f"{new_file} already exists", field="--file", hint="Choose another name, or delete the file first."
        ) from error
    except OSError as error:
        hint = "" if new_file.parent.is_dir() else f"Create the folder {new_file.parent} first."
        raise ConfigError(f"{new_file} cannot be written: {error.strerror}", field="--file", hint=hint) from error
    say(f"wrote {new_file}", err=True)
