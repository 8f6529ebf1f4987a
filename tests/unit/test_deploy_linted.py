"""What the linter calls an error is deployed by nobody, and nothing is asked before."""

from unittest.mock import Mock

import pytest

from cdc_outbox.connect.deploy import Deployment, DeployOptions
from cdc_outbox.errors import ConnectorInvalidError
from cdc_outbox.spec import parse_spec
from tests.support.specs import MINIMAL


def test_a_configuration_that_would_not_work_is_refused_before_anything_is_asked() -> None:
    spec = parse_spec(f"{MINIMAL}overrides:\n  max.queue.size: 10\n", name="x.yaml")
    client, database = Mock(), Mock()
    deployment = Deployment(spec, client, database, DeployOptions(), Mock())
    for attempt in (deployment.run, deployment.dry_run):
        with pytest.raises(ConnectorInvalidError) as caught:
            attempt()
        assert [(finding.code, finding.location.line) for finding in caught.value.findings] == [("CC108", 12)]
    assert (client.mock_calls, database.mock_calls) == ([], [])
