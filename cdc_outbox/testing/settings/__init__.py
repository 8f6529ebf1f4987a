"""The settings files that the local stack and docker-compose.yml share."""

from pathlib import Path


def settings_file(name: str) -> Path:
    """Return the path of a settings file."""
    return Path(__file__).parent / name
