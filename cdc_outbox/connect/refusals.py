"""What is refused before anything is changed: a database that cannot be asked, a configuration that would not work."""

from collections.abc import Sequence

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.lint import lint
from cdc_outbox.connect.lint.specs import rendered
from cdc_outbox.database import DatabaseKind
from cdc_outbox.errors import ConfigError, ConnectorInvalidError
from cdc_outbox.finding import Finding, errors_in
from cdc_outbox.spec import Spec

RENDER = "`cdc-outbox render` prints the configuration, and Connect takes it at PUT /connectors/NAME/config."
"""How a connector is deployed by hand."""


def refuse_other_kind(spec: Spec) -> None:
    """Refuse a database that cannot be asked yet whether the connector would work.

    Raises:
        ConfigError: It is not PostgreSQL.
    """
    if spec.database.kind is not DatabaseKind.POSTGRESQL:
        raise ConfigError(
            f"connectors are deployed for postgresql so far, not for {spec.database.kind}",
            field="database.kind",
            hint=RENDER,
        )


def refuse_unfit(spec: Spec) -> None:
    """Refuse a spec whose configuration would not work, by itself.

    Raises:
        ConnectorInvalidError: With ``findings``.
    """
    refuse(spec, lint(rendered(spec)), "the configuration would not work")


def refuse_what_connect_refuses(spec: Spec, config: dict[str, str], client: ConnectClient) -> None:
    """Let Connect and the connector check the configuration that a spec became.

    Raises:
        ConnectorInvalidError: They refuse it, with ``findings``.
    """
    refuse(spec, client.validate(config), "Connect refuses the configuration")


def refuse(spec: Spec, findings: Sequence[Finding], message: str) -> None:
    """Refuse a pipeline that something was found of which is an error.

    Raises:
        ConnectorInvalidError: With those findings that are.
    """
    errors = errors_in(tuple(findings))
    if errors:
        raise ConnectorInvalidError(f"{spec.name}: {message}", findings=errors)
