"""How `cdc-outbox consume` names what keeps a consumer's module from being imported."""

from pathlib import Path

import pytest

from cdc_outbox.cli.consume import load
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
