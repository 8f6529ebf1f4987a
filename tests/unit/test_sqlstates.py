"""Which of the database's errors are worth a retry, by their code."""

import psycopg
import pytest

from cdc_outbox.databases.drivers.psycopg import translate
from cdc_outbox.databases.drivers.sqlstate import describe
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError, TransactionConflictError, TransactionTimeoutError


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("25006", DatabaseUnavailableError),
        ("25P03", TransactionTimeoutError),
        ("25P04", TransactionTimeoutError),
        ("53100", DatabaseUnavailableError),
        ("53200", DatabaseUnavailableError),
        ("57P01", DatabaseUnavailableError),
        ("40001", TransactionConflictError),
        ("55P03", TransactionConflictError),
    ],
)
def test_what_passes_is_worth_a_retry(sqlstate: str, kind: type[DatabaseError]) -> None:
    error = type("Refused", (psycopg.OperationalError,), {"sqlstate": sqlstate})("refused")
    ours = translate(error)
    assert type(ours) is kind
    assert ours.retryable
    assert ours.sqlstate == sqlstate


@pytest.mark.parametrize("sqlstate", ["23505", "54000", "57014"])
def test_what_comes_again_is_the_callers(sqlstate: str) -> None:
    assert translate(type("Refused", (psycopg.OperationalError,), {"sqlstate": sqlstate})("refused")) is None


@pytest.mark.parametrize("sqlstate", ["26000", "42P05"])
def test_a_prepared_statement_of_another_session_names_the_pooler_and_its_settings(sqlstate: str) -> None:
    error = describe(sqlstate, "Refused")
    assert "prepared statement" in str(error)
    assert not error.retryable
    for word in ("PgBouncer", "max_prepared_statements", "prepare_threshold=None", "statement_cache_size=0"):
        assert word in error.hint
