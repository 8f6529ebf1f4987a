import pytest

from cdc_outbox import ConfigError, OutboxMode, OutboxTable
from cdc_outbox.sql import PYFORMAT
from cdc_outbox.table import Dialect
from cdc_outbox.writer.statements import OutboxStatements


@pytest.mark.parametrize("dialect", [Dialect.MYSQL, Dialect.SQLITE])
def test_logical_messages_are_postgresqls(dialect: Dialect) -> None:
    with pytest.raises(ConfigError, match="has no logical messages"):
        OutboxStatements(table=OutboxTable(mode=OutboxMode.MESSAGE), contract=None, dialect=dialect, style=PYFORMAT)
