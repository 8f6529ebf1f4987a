"""How `cdc-outbox consume` names what keeps a consumer's module from being imported, and sums up what was done."""

from pathlib import Path

import pytest

from cdc_outbox.cli.consume import load, summary
from cdc_outbox.consumer import Outcome
from cdc_outbox.errors import ConfigError


def test_a_syntax_error_is_named_by_its_own_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("import json\n\ndef broken(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        load("broken_module:consumer")
    assert str(caught.value) == (
        "the module broken_module cannot be imported: broken_module.py:3: SyntaxError: invalid syntax"
    )


def test_what_was_parked_is_not_told_as_if_it_still_were() -> None:
    outcomes = {Outcome.PARKED: 2, Outcome.UNHANDLED: 4, Outcome.APPLIED: 1_020}
    assert summary(outcomes) == "1,020 applied, 2 were parked, 4 unhandled"
    assert (summary({Outcome.PARKED: 1}), summary({})) == ("1 was parked", "no events")
