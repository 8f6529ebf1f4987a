"""The stack of docker-compose.yml in containers: infra/compose runs it, harms it and counts."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.pages import ROOT
from tests.support.patience import patience

_SECONDS = 400.0
"""What the README's pipeline takes, and before the first time the images that it needs."""
_SECONDS_OF_ALL = 2400.0
_SKIPPED = 75
_PACKAGES = "docker.io iptables slirp4netns mmdebstrap debian-archive-keyring iproute2"


def test_the_stack_in_containers_loses_and_repeats_nothing(request: pytest.FixtureRequest) -> None:
    whole = request.config.option.all
    command = [str(ROOT / "infra" / "compose"), *([] if whole else ["readme"])]
    seconds = patience(_SECONDS_OF_ALL if whole else _SECONDS)
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode == _SKIPPED:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ({"id": "echo 1000"}, "a container engine needs root"),
        (
            {"id": "echo 0"},
            f"{_PACKAGES} are not installed, and there is no apt-get",
        ),
        (
            {"id": "echo 0", "apt-get": "exit 100"},
            f"{_PACKAGES} are not installed, and apt-get cannot install them",
        ),
        (
            dict.fromkeys(("dockerd", "iptables", "slirp4netns", "mmdebstrap", "ip"), "")
            | {
                "id": "echo 0",
                "unshare": "echo unshare failed: Operation not permitted >&2; exit 1",
            },
            "unshare failed: Operation not permitted",
        ),
    ],
    ids=["user", "no-apt", "no-packages", "no-namespaces"],
)
def test_a_machine_without_an_engine_is_told_in_one_sentence(
    programs: dict[str, str], reason: str, tmp_path: Path
) -> None:
    for name in ("bash", "dirname", "env"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [ROOT / "infra" / "compose"],
        env={"PATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (_SKIPPED, f"SKIPPED compose: {reason}")
