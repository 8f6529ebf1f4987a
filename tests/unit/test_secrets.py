"""What was mistyped is not quoted: a password may be in it."""

import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.databases.drivers import psycopg
from cdc_outbox.errors import CdcOutboxError, ConfigError, DatabaseUnavailableError

PASSWORDS = ["hun%ter2", "hun ter2", "hun@ter2", "hun/ter2", "hun%zzter2", "hun%efter2"]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("form", ["postgresql://user:{}@127.0.0.1:1/orders", "host=127.0.0.1 port=1 password={}"])
def test_a_dsn_that_cannot_be_read_is_not_quoted(form: str, password: str) -> None:
    with pytest.raises(CdcOutboxError) as caught:
        psycopg.connect(form.format(password), connect_timeout=1)
    for said in (caught.value, caught.value.__cause__, caught.value.__context__):
        assert "hun" not in str(said)
        assert "ter2" not in str(said)


def test_a_password_that_is_written_as_it_should_be_is_taken() -> None:
    for dsn in ("postgresql://u:hun%25t%40r%2F%20@127.0.0.1:1/orders", "host=127.0.0.1 port=1 password='hun %@/'"):
        with pytest.raises(DatabaseUnavailableError, match="Connection refused"):
            psycopg.connect(dsn)


def test_several_hosts_and_an_abstract_socket_are_taken() -> None:
    with pytest.raises(DatabaseUnavailableError):
        psycopg.connect("host=127.0.0.1,127.0.0.1 port=1,1")
    with pytest.raises(DatabaseUnavailableError):
        psycopg.connect("host=@nobody port=1")


@pytest.mark.parametrize("url", ["admin:hunter2@connect:8083", "ftp://u:hunter2@connect:8083", "http://u:hunter2@c"])
def test_a_url_that_is_none_is_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ConnectClient(url)
    assert "hunter2" not in str(caught.value)
