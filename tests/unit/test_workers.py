"""A cluster is asked through any of its workers, with patience, and gives no secret away."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cdc_outbox.connect import workers
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Basic, Bearer, Cluster, Tls
from cdc_outbox.connect.timings import Timings
from cdc_outbox.errors import ConfigError, ConnectError, ConnectUnavailableError
from tests.support.connect_server import BROKEN, NOBODY, REBALANCING, RESET, STARTING, answering, each, trickling
from tests.support.patience import patience

NOWHERE = "http://127.0.0.1:1"
SECRET = "hunter2-s3cret"
NAMES = (200, ["orders"])
TIMINGS = Timings(first_pause_seconds=0.001)


def client(*urls: str, seconds: float = 5, told: list[str] | None = None, timings: Timings = TIMINGS) -> ConnectClient:
    cluster = Cluster(urls=urls, patience_seconds=seconds, timings=timings)
    return ConnectClient(cluster, waits=told.append if told is not None else lambda _what: None)


@pytest.mark.parametrize("passing", [REBALANCING, BROKEN, STARTING, RESET, (503, ""), (429, {"message": "slowly"})])
def test_what_passes_is_waited_for_and_told_once(passing: object) -> None:
    told: list[str] = []
    with answering(each(passing, passing, NAMES)) as (url, asked):
        assert client(url, told=told).find_names() == ["orders"]
    assert len(asked) == 3
    assert len(told) == 1


@pytest.mark.parametrize("lasting", [REBALANCING, BROKEN, STARTING, RESET])
def test_what_does_not_pass_is_given_up_in_time_and_may_be_tried_again(lasting: object) -> None:
    with answering(each(lasting)) as (url, _), pytest.raises(ConnectError) as caught:
        client(url, seconds=0.2).find_names()
    assert caught.value.retryable


def test_a_connection_that_breaks_off_is_told_from_a_worker_that_is_not_there() -> None:
    with (
        answering(each(RESET)) as (url, _),
        pytest.raises(ConnectUnavailableError, match="broke before it answered") as caught,
    ):
        client(url, seconds=0).find_names()
    assert "check any" in caught.value.hint
    with pytest.raises(ConnectUnavailableError, match="no Kafka Connect worker answers"):
        client(NOWHERE, seconds=0).find_names()


def test_an_attempt_that_takes_long_to_fail_uses_up_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _seconds: None))

    def fail_slowly(_asked: object) -> object:
        now[0] += 50
        return BROKEN

    with answering(fail_slowly) as (url, asked), pytest.raises(ConnectUnavailableError):
        client(url, seconds=30).find_names()
    assert len(asked) == 1


def test_another_worker_answers_where_the_first_does_not_and_is_asked_first_from_then_on() -> None:
    with answering(each(BROKEN)) as (ill, refused), answering(each(NAMES)) as (well, asked):
        found = client(NOWHERE, ill, well, seconds=0)
        assert found.find_names() == found.find_names() == ["orders"]
    assert (len(refused), len(asked)) == (1, 2)


def test_what_a_worker_refuses_no_other_is_asked() -> None:
    with answering(each(NOBODY)) as (first, _), answering(each(NAMES)) as (second, asked):
        assert client(first, second).find_config("orders") is None
    assert asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with answering(each((status, ""))) as (url, asked), pytest.raises(ConnectError) as caught:
        ConnectClient(Cluster(urls=(url,), login=Bearer(SECRET))).put_config({"name": "orders"})
    assert [str(each) for each in asked] == ["PUT /connectors/orders/config"]
    assert "Redirects are not followed" in caught.value.hint
    assert not caught.value.retryable


def test_a_connector_that_is_made_while_the_connection_breaks_is_ours() -> None:
    config = {"name": "orders", "slot.name": "orders"}
    with answering(lambda asked: RESET if asked.method == "POST" else (200, config)) as (url, asked):
        client(url).create_stopped(config)
    assert [each.method for each in asked] == ["POST", "GET"]


def test_a_connector_that_is_deleted_while_the_connection_breaks_is_gone() -> None:
    with answering(each(RESET, NOBODY)) as (url, _):
        client(url).delete("orders")
    with answering(each(NOBODY)) as (url, _), pytest.raises(ConnectError):
        client(url).delete("orders")


@pytest.mark.parametrize(
    ("login", "header"),
    [(Basic("me", "p:w€"), "Basic bWU6cDp34oKs"), (Bearer(SECRET), f"Bearer {SECRET}"), (None, None)],
)
def test_a_login_goes_with_every_request_and_nobody_elses(
    login: Basic | Bearer | None, header: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A .netrc of the user's is for other programs."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with answering(each(NAMES)) as (url, asked):
        ConnectClient(Cluster(urls=(url,), login=login)).find_names()
    assert asked[0].headers.get("Authorization") == header


def test_a_login_that_is_refused_says_where_one_is_given() -> None:
    with answering(each((401, ""))) as (url, asked), pytest.raises(ConnectError) as caught:
        ConnectClient(Cluster(urls=(url,), login=Basic("me", SECRET))).find_names()
    assert len(asked) == 1
    assert "login" in caught.value.hint
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Bearer(f"{SECRET}\r\nX-Evil: 1"),
        lambda: Bearer(""),
        lambda: Basic(f"me:{SECRET}", SECRET),
        lambda: Cluster(urls=()),
        lambda: Cluster(urls=(f"https://me:{SECRET}@connect",)),
        lambda: Cluster(urls=("http://localhost:1", f"https://connect/?token={SECRET}")),
        lambda: Cluster(urls=("http://localhost:port",)),
        lambda: Tls(ca=Path("/nowhere")),
        lambda: Tls(key=Path("/dev/null")),
    ],
)
def test_what_cannot_be_sent_is_refused_at_birth_and_not_quoted(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(ConfigError) as caught:
        wrong()
    assert SECRET not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("login", [Basic("me", SECRET), Bearer(SECRET)])
@pytest.mark.parametrize("host", ["connect.prod", "10.0.0.1", "[fd00::1]", "127.0.0.1.example.com", "localhost.evil"])
def test_a_login_does_not_go_to_another_host_over_http(host: str, login: Basic | Bearer) -> None:
    with pytest.raises(ConfigError, match="over http") as caught:
        Cluster(urls=("https://connect", f"http://{host}:8083"), login=login)
    assert SECRET not in f"{caught.value} {caught.value.hint}"
    assert Cluster(urls=(f"http://{host}:8083",), login=login, allow_plaintext_login=True).login == login
    assert Cluster(urls=(f"https://{host}:8083",), login=login).login == login
    assert Cluster(urls=(f"http://{host}:8083",)).login is None


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_a_login_may_go_to_this_machine_over_http(host: str) -> None:
    assert Cluster(urls=(f"http://{host}:8083",), login=Bearer(SECRET)).login == Bearer(SECRET)


def test_secrets_are_not_shown() -> None:
    cluster = Cluster(urls=("https://connect",), login=Bearer(SECRET))
    assert SECRET not in f"{cluster!r} {cluster} {Basic('me', SECRET)!r}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of the worker's and one of the client's, each its own authority."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("worker", "client"):
        request = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN={name}"
        files = f"-addext subjectAltName=IP:127.0.0.1 -keyout {name}.key -out {name}.pem"
        subprocess.run([*request.split(), *files.split()], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def mutual(certificates: Path) -> Iterator[str]:
    """The URL of a worker that answers those only who have the right certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "worker.pem", certificates / "worker.key")
    context.load_verify_locations(certificates / "client.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with answering(each(NAMES), tls=context) as (url, _):
        yield url


def test_both_sides_show_their_certificates(mutual: str, certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/ssl/certs/ca-certificates.crt")
    tls = Tls(ca=certificates / "worker.pem", certificate=certificates / "client.pem", key=certificates / "client.key")
    assert ConnectClient(Cluster(urls=(mutual,), tls=tls)).find_names() == ["orders"]


def test_a_worker_that_nobody_vouches_for_is_not_spoken_to(mutual: str) -> None:
    with pytest.raises(ConnectError, match="cannot connect securely") as caught:
        ConnectClient(Cluster(urls=(mutual,))).find_names()
    assert not caught.value.retryable
    assert not isinstance(caught.value, ConnectUnavailableError)
    assert "tls.ca" in caught.value.hint


def test_a_worker_that_leaves_a_request_unanswered_is_told_from_one_that_is_gone() -> None:
    over, timings = threading.Event(), Timings(answer_seconds=0.2)
    with answering(lambda _asked: over.wait(patience()) and NAMES) as (url, _):
        try:
            with pytest.raises(ConnectUnavailableError, match=f"within {timings.answer_seconds:g} s") as caught:
                client(url, seconds=0, timings=timings).find_names()
        finally:
            over.set()
    assert "brokers" in caught.value.hint


@pytest.mark.parametrize("octets", [b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40, b"HTTP/1.1 200 OK\r\n\r\n[" + b" " * 40])
def test_an_answer_that_comes_a_byte_at_a_time_is_waited_for_as_long_as_one_that_does_not_come(octets: bytes) -> None:
    whole = octets + (b"\r\nContent-Length: 2\r\n\r\n[]" if octets.endswith(b"x") else b"]")
    timings = Timings(answer_seconds=0.3)
    with trickling(whole, pause_seconds=0.05) as url, pytest.raises(ConnectUnavailableError, match=r"within 0\.3 s"):
        client(url, seconds=0, timings=timings).find_names()


def test_an_answer_that_is_larger_than_any_of_connects_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_outbox.connect.http.MAX_BYTES", 1000)
    with answering(each((200, ["x" * 500]), (200, ["x" * 1001]))) as (url, asked):
        found = client(url)
        assert len(found.find_names()) == 1
        with pytest.raises(ConnectError, match="sent more data than Kafka Connect does") as caught:
            found.find_names()
    assert not caught.value.retryable
    assert len(asked) == 2


def test_an_answer_that_nests_too_deeply_is_not_connects() -> None:
    with answering(each((200, "[" * 100_000))) as (url, _), pytest.raises(ConnectError, match="is not Kafka Connect"):
        client(url).find_names()


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_not_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with answering(each(NAMES)) as (proxy, passed), answering(each(NAMES)) as (url, asked):
        monkeypatch.setenv(variable, proxy)
        ConnectClient(Cluster(urls=(url,), login=Basic("me", SECRET))).find_names()
    assert (passed, len(asked)) == ([], 1)


def test_a_proxy_that_is_named_is_used() -> None:
    with answering(each(NAMES)) as (proxy, passed):
        ConnectClient(Cluster(urls=("http://connect.invalid:8083",), proxy=proxy)).find_names()
    assert [each.path for each in passed] == ["http://connect.invalid:8083/connectors"]


def test_a_login_does_not_go_through_a_proxy_in_plain_text() -> None:
    with pytest.raises(ConfigError, match="over http"):
        Cluster(urls=("http://127.0.0.1:8083",), login=Bearer(SECRET), proxy="http://proxy:3128")
    with pytest.raises(ConfigError, match="the proxy's URL must not contain credentials") as caught:
        Cluster(urls=("https://connect",), proxy=f"http://me:{SECRET}@proxy:3128")
    assert SECRET not in str(caught.value)
