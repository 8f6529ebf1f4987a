"""Consent to a file of contexts in the working directory, kept by its hash in the user's state folder."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from cdc_outbox.errors import ConfigError


def user_folder(variables: Mapping[str, str], variable: str, default: str) -> Path | None:
    """Return one of the user's own folders, ``None`` where the environment names none.

    Args:
        variable: Of the XDG base directories, such as ``XDG_STATE_HOME``.
        default: Where it is below the user's home without the variable.
    """
    # A relative one would be a folder of the working directory, whatever user owns that; XDG says to ignore it.
    named, home = Path(variables.get(variable, "")), Path(variables.get("HOME", ""))
    if named.is_absolute():
        return named
    return home / default if home.is_absolute() else None


class TrustedFiles:
    """The files of contexts that a user trusts: each by its path and its content, so that a change ends the trust."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        state = user_folder(variables, "XDG_STATE_HOME", ".local/state")
        self._folder = None if state is None else state / "cdc-outbox" / "trusted"

    def has(self, path: Path, text: str) -> bool:
        """Tell whether a file is trusted with this content."""
        return self._folder is not None and (self._folder / _digest(path, text)).is_file()

    def add(self, path: Path, text: str) -> None:
        """Trust a file with this content from now on.

        Raises:
            ConfigError: The user's state folder cannot be written to.
        """
        if self._folder is None:
            raise ConfigError("the user has no state folder", hint="Set HOME or XDG_STATE_HOME to an absolute path.")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / _digest(path, text)).write_text(f"{_absolute(path)}\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be written to: {error.strerror}") from error

    def remove(self, path: Path) -> None:
        """Trust a file no longer, whatever its content."""
        for consent in self._folder.glob("*") if self._folder is not None else ():
            if consent.read_text(encoding="utf-8") == f"{_absolute(path)}\n":
                consent.unlink()


def _digest(path: Path, text: str) -> str:
    return sha256(f"{_absolute(path)}\n{text}".encode()).hexdigest()


def _absolute(path: Path) -> Path:
    """Return a path as every working directory names it; relative references begin in the same folder."""
    return path.parent.resolve() / path.name
