"""What a watch reads of the heartbeats of connectors, look after look."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_outbox.cli import heartbeats
from cdc_outbox.cli.heartbeats import Looks
from cdc_outbox.finding import Finding
from cdc_outbox.operations.recovery import Beating

SILENT = {"name": "orders"}


def beating(topic: str) -> dict[str, str]:
    return {
        **SILENT,
        "heartbeat.action.query": """select "public"."outbox_heartbeat"(cast('orders' as text), interval '1 minute')""",
        "topic.creation.heartbeat.include": topic,
    }


class Read:
    """The topics of which a history was opened, and those that were looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.config: Mapping[str, str] = SILENT
        self.opened: list[str] = []
        self.looked_at: list[str] = []
        monkeypatch.setattr(heartbeats, "_history", self._open)
        client: Any = SimpleNamespace(find_config=lambda _name: self.config)
        self._looks = Looks(client, {}, None)

    def _open(self, beating: Beating, *_: object) -> Any:
        topic = beating.topic
        self.opened.append(topic)

        def look(*, runs: bool) -> list[Finding]:
            assert runs
            self.looked_at.append(topic)
            return []

        return SimpleNamespace(look=look)

    def look(self, config: Mapping[str, str]) -> None:
        """Look once at a connector of this configuration."""
        self.config = config
        self._looks.look("orders", runs=True)


def test_heartbeats_that_a_deployment_adds_or_moves_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Read(monkeypatch)
    for config in (SILENT, beating("first"), beating("first"), beating("second"), SILENT):
        read.look(config)
    assert read.looked_at == ["first", "first", "second"]
    assert read.opened == ["first", "second"]  # what was read of a topic is not read again
