"""Later versions of our tables, which exist only for a test."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdc_outbox.databases import sql
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.sql import load_versions


@contextmanager
def planted(folder: Path, dialect: Dialect, files: dict[str, str]) -> Iterator[None]:
    """Let the package have more migrations until the block's end, and be an older release again afterwards.

    Args:
        folder: Empty, or not there.
        files: Text by component and name: ``outbox/0002_add_note.sql``.
    """
    shutil.copytree(Path(sql.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in files.items():
        (folder / dialect / "migrations" / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "FOLDER", folder)
        load_versions.cache_clear()
        yield
    load_versions.cache_clear()
