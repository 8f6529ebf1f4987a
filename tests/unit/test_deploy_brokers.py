"""What `deploy-connector` finds at the brokers before it deploys."""

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cdc_outbox.cli import deploy
from cdc_outbox.contract.topics import Topic
from cdc_outbox.finding import Severity
from cdc_outbox.spec import parse_spec
from tests.support.specs import MINIMAL

SPEC = parse_spec(MINIMAL)
KEPT = Topic(name="", partitions=3, replication_factor=3, config={"min.insync.replicas": "2"})


def found_by_deploy(monkeypatch: pytest.MonkeyPatch, kept: Topic) -> list[tuple[str, Severity]]:
    def find(names: Iterable[str]) -> dict[str, Topic]:
        return {name: replace(kept, name=name) for name in names}

    topics: Any = SimpleNamespace(find=find, count_brokers=lambda: 3)
    monkeypatch.setattr(deploy, "Topics", lambda *_: topics)
    monkeypatch.setattr(deploy, "heartbeat_findings", lambda *_, **__: [])
    found = deploy._look_at_brokers("b:1", None, SPEC, "host=x", Mock())
    return sorted({(finding.code, finding.severity) for finding in found})


def test_a_topic_that_can_lose_acknowledged_messages_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for losing in (replace(KEPT, config={}), replace(KEPT, replication_factor=1)):
        assert [code for code, _ in found_by_deploy(monkeypatch, losing)] == ["OP304"]
    assert found_by_deploy(monkeypatch, KEPT) == []
