"""A database server dies under a consumer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.server_deaths import Deaths, Doomed, started_mariadb, started_postgres
from tests.support.rig import open_folder

SEED = 1


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def postgres(folder: Path) -> Iterator[Doomed]:
    with started_postgres(folder) as doomed:
        yield doomed


@pytest.fixture(scope="module")
def mariadb(folder: Path) -> Iterator[Doomed]:
    with started_mariadb(folder) as doomed:
        yield doomed


@pytest.fixture
def doomed(request: pytest.FixtureRequest) -> Any:
    """Return the server of a parameter."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("doomed", ["postgres", "mariadb"], indirect=True)
def test_consumers_of_every_driver_outlive_a_server_that_dies(doomed: Doomed) -> None:
    """`infra/faults consumer --kinds server` has 200 deaths."""
    with Deaths(doomed, SEED) as deaths:
        violations = [violation for death in doomed.deaths[1:] for violation in deaths.die(death).violations]
    assert not violations, f"seed {SEED}:\n" + "\n".join(violations)
