"""What a DSN says of TLS, against servers that offer it and that do not."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cdc_outbox.databases.drivers.mysql import connect
from cdc_outbox.errors import DatabaseAccessError
from cdc_outbox.testing import MariaDb, Stack
from cdc_outbox.testing.mariadb import make_mariadb
from tests.support.rig import open_folder


def make_certificate(folder: Path, name: str, address: str) -> Path:
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    files = f"-subj /CN={name} -addext subjectAltName=IP:{address} -keyout {name}.key -out {name}.pem"
    subprocess.run([*request.split(), *files.split()], cwd=folder, check=True, capture_output=True)
    (folder / f"{name}.key").chmod(0o644)  # the server runs as another user
    return folder / f"{name}.pem"


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    with open_folder() as folder:
        for name, address in (("server", "127.0.0.1"), ("elsewhere", "192.0.2.1")):
            make_certificate(folder, name, address)
        yield folder


@pytest.fixture(scope="module")
def encrypted(outbox_stack: Stack, certificates: Path) -> Iterator[str]:
    """The URL of a database on a server that offers TLS."""
    with open_folder() as folder:
        server = make_mariadb(folder / "mariadb", outbox_stack.folder.reserve_port())
        with (folder / "mariadb" / "mariadb.cnf").open("a") as settings:
            settings.write(f"\n[mariadbd]\nssl_cert={certificates}/server.pem\nssl_key={certificates}/server.key\n")
        server.start()
        server.create_database("orders")
        yield url_of(server, "orders")
        server.kill()


def url_of(server: MariaDb, database: str) -> str:
    return f"mysql://root:{server.password}@127.0.0.1:{server.port}/{database}"


def cipher(url: str) -> str:
    with closing(connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("show session status like 'Ssl_cipher'")
        [(_, found)] = cursor.fetchall()
    return str(found)


def test_a_server_that_the_authority_vouches_for_is_spoken_to(encrypted: str, certificates: Path) -> None:
    assert cipher(f"{encrypted}?ssl_ca={certificates}/server.pem")


@pytest.mark.parametrize("query", ["ssl_ca={}/elsewhere.pem", "ssl_mode=verify_ca"], ids=["another", "the system's"])
def test_a_server_that_no_authority_vouches_for_is_refused(encrypted: str, certificates: Path, query: str) -> None:
    with pytest.raises(DatabaseAccessError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        connect(f"{encrypted}?{query.format(certificates)}")
    assert "ssl_ca" in caught.value.hint


def test_the_certificate_of_another_server_is_taken_only_without_its_name(
    outbox_stack: Stack, certificates: Path
) -> None:
    with open_folder() as folder:
        server = make_mariadb(folder / "mariadb", outbox_stack.folder.reserve_port())
        with (folder / "mariadb" / "mariadb.cnf").open("a") as settings:
            name = f"{certificates}/elsewhere"
            settings.write(f"\n[mariadbd]\nssl_cert={name}.pem\nssl_key={name}.key\n")
        server.start()
        try:
            server.create_database("orders")
            url = f"{url_of(server, 'orders')}?ssl_ca={certificates}/elsewhere.pem"
            with pytest.raises(DatabaseAccessError, match="CERTIFICATE_VERIFY_FAILED"):
                connect(url)
            assert cipher(f"{url}&ssl_mode=verify_ca")
        finally:
            server.kill()


def test_encryption_alone_needs_no_authority_and_can_be_turned_off(encrypted: str) -> None:
    assert cipher(f"{encrypted}?ssl_mode=required")
    assert not cipher(f"{encrypted}?ssl_mode=disabled")


def test_a_server_without_tls_is_refused_where_it_is_asked_for(mariadb: MariaDb) -> None:
    mariadb.create_database("without_tls")
    with pytest.raises(DatabaseAccessError, match=r"SSL is required|no TLS"):
        connect(f"{url_of(mariadb, 'without_tls')}?ssl_mode=required")
