"""docker-compose.yml as Docker Compose reads it without a file .env."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SOURCE, CLUSTER_SOURCE = ((ROOT / f"docker-compose{part}.yml").read_text() for part in ("", ".cluster"))
_VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::-([^}]*))?\}")

DEFAULTS: dict[str, str] = {
    name: default for name, default in _VARIABLE.findall(SOURCE + CLUSTER_SOURCE) if name != "COMPOSE_PROJECT_NAME"
}
"""Variables of .env, with the values that they have without it."""


class _Loader(yaml.SafeLoader):
    """Takes Compose's own tags as their values."""

    def construct_tagged(self, node: yaml.Node) -> list[Any] | None:
        return self.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else None


for _tag in ("!override", "!reset"):
    _Loader.add_constructor(_tag, _Loader.construct_tagged)


def load(source: str) -> dict[str, Any]:
    """Return a compose file with its defaults in place of variables."""
    text = _VARIABLE.sub(lambda found: found[2] or found[1], source)
    loaded: dict[str, Any] = yaml.load(text.replace("$$", "$"), _Loader)  # noqa: S506 - a safe one
    return loaded


SERVICES: dict[str, dict[str, Any]] = load(SOURCE)["services"]
CLUSTER: dict[str, dict[str, Any]] = load(CLUSTER_SOURCE)["services"]
SERVERS = ("postgres", "kafka", "connect")
DOCKERFILES = sorted(ROOT.glob("infra/*/Dockerfile"))


def properties(lines: str) -> dict[str, str]:
    """Return the settings in lines of a .properties file."""
    return dict(line.split("=", 1) for line in lines.splitlines() if line)


def copied(dockerfile: Path) -> list[str]:
    """Return the sources that a Dockerfile copies from the build context."""
    copies = re.findall(r"^COPY (?!--from=)(.+) \S+$", dockerfile.read_text(), re.MULTILINE)
    return [source for sources in copies for source in sources.split()]
