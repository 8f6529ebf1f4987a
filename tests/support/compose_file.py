"""docker-compose.yml as Docker Compose reads it without a file .env."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "docker-compose.yml").read_text()
_VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::-([^}]*))?\}")

DEFAULTS: dict[str, str] = {
    name: default for name, default in _VARIABLE.findall(SOURCE) if name != "COMPOSE_PROJECT_NAME"
}
"""Variables of .env, with the values that they have without it."""


def load(path: Path) -> dict[str, Any]:
    """Return a compose file with its defaults in place of variables."""
    text = _VARIABLE.sub(lambda found: found[2] or found[1], path.read_text())
    loaded: dict[str, Any] = yaml.safe_load(text.replace("$$", "$"))
    return loaded


SERVICES: dict[str, dict[str, Any]] = load(ROOT / "docker-compose.yml")["services"]
SERVERS = ("postgres", "kafka", "connect")
DOCKERFILES = sorted(ROOT.glob("infra/*/Dockerfile"))


def properties(lines: str) -> dict[str, str]:
    """Return the settings in lines of a .properties file."""
    return dict(line.split("=", 1) for line in lines.splitlines() if line)


def copied(dockerfile: Path) -> list[str]:
    """Return the sources that a Dockerfile copies from the build context."""
    copies = re.findall(r"^COPY (?!--from=)(.+) \S+$", dockerfile.read_text(), re.MULTILINE)
    return [source for sources in copies for source in sources.split()]
