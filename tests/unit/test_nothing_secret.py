"""Whatever fails, no secret is said: five of the sets of which `infra/fuzz secrets` plants a thousand."""

import pytest

from fuzz.secrets import explore
from fuzz.secrets_laws import LAWS


@pytest.mark.parametrize("place", LAWS)
def test_what_is_said_holds_no_secret(place: str) -> None:
    explore(LAWS[place], 5)
