"""A context names a place; what is secret in it stays where it is."""

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cdc_outbox.cli import cli
from cdc_outbox.cli.brokers import broker_options
from cdc_outbox.cli.context_option import take_contexts
from cdc_outbox.cli.contexts import Context, Contexts, Databases
from cdc_outbox.cli.contexts_file import contexts_path, read_contexts
from cdc_outbox.cli.groups import name_variables
from cdc_outbox.cli.options import connect_url_option, dsns_option
from cdc_outbox.connect.cluster import Basic, Bearer, Cluster
from cdc_outbox.errors import CdcOutboxError, ConfigError, DatabaseError
from tests.support.specs import ORDERS
from tests.support.timings import SILENT_TIMINGS

SECRET = "hunter2-s3cret"
FILE = """\
version: 1
default: staging
contexts:
  staging:
    connect: {url: http://connect.staging:8083}
    dsn: postgresql://deployer:${env:DB_PASSWORD}@db.staging/orders
    kafka: {bootstrap_servers: "kafka.staging:9092"}
  production:
    connect:
      urls: [https://connect-1:8443, https://connect-2:8443/]
      basic: {user: deployer, password: "${file:secrets/connect}"}
      tls: {ca: ca.pem}
      patience_seconds: 90
    dsns: {orders: "${env:ORDERS_DSN}", billing: "dbname=billing password='${env:ORDERS_DSN}'"}
    kafka: {bootstrap_servers: "kafka:9092", settings: kafka.properties}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cdc-outbox.yaml").write_text(FILE)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "connect").write_text(f"{SECRET}\n")
    (tmp_path / "ca.pem").touch()
    return tmp_path


def contexts(folder: Path, **variables: str) -> Contexts:
    return read_contexts(variables, named=folder / "cdc-outbox.yaml")


def context(name: str, folder: Path, **variables: str) -> Context:
    return contexts(folder, **variables).find(name)


def test_references_are_resolved_when_somebody_asks(folder: Path) -> None:
    production = context("production", folder, ORDERS_DSN="dbname=orders")
    cluster = production.cluster()
    assert cluster is not None
    assert cluster.urls == ("https://connect-1:8443", "https://connect-2:8443")
    assert (cluster.login, cluster.patience_seconds) == (Basic("deployer", SECRET), 90)
    assert cluster.tls.ca == folder / "ca.pem"
    databases = production.databases()
    assert databases is not None
    assert databases.of("orders") == "dbname=orders"
    assert databases.of("billing") == "dbname=billing password='dbname=orders'"
    assert production.kafka_settings() == folder / "kafka.properties"
    with pytest.raises(ConfigError, match="the context has no DSN for the pipeline shipping") as caught:
        databases.of("shipping")
    assert "billing, orders" in caught.value.hint


def test_what_a_reference_leads_to_is_missed_only_by_who_asks_for_it(folder: Path) -> None:
    staging = context("staging", folder)
    assert staging.cluster() == Cluster(urls=("http://connect.staging:8083",))
    databases = staging.databases()
    assert databases is not None
    with pytest.raises(ConfigError, match="DB_PASSWORD, which the context staging needs, is not set"):
        databases.of("orders")
    (folder / "secrets" / "connect").unlink()
    with pytest.raises(ConfigError, match="secrets/connect, which the context production needs, cannot be read"):
        context("production", folder).cluster()


def test_a_name_that_is_not_there_lists_what_is(folder: Path) -> None:
    with pytest.raises(ConfigError, match="has no context 'prodution'") as caught:
        context("prodution", folder)
    assert caught.value.hint == "Did you mean 'production'? Contexts: production, staging."
    with pytest.raises(ConfigError, match="no file of contexts was found"):
        read_contexts({}, folder / "secrets").find("production")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("default: staging", "default: nobody", ":2 default: no context has this name"),
        ("dsn: postgresql", "dns: postgresql", "contexts.staging.dns: unknown key. Did you mean"),
        (
            '"${file:secrets/connect}"',
            SECRET,
            "contexts.production.connect.basic.password: a secret must be a reference",
        ),
        ("${env:DB_PASSWORD}", SECRET, "contexts.staging.dsn: a password must be a reference"),
        ("${env:ORDERS_DSN}'", f"{SECRET}'", "dsns.billing: a password must be a reference"),
        ("basic: {user: deployer, ", "basic: {", "needs a user and a password"),
        ("basic:", f"bearer: {SECRET}\n      basic:", "basic and bearer"),
        ("urls: [https://connect-1:8443, https://connect-2:8443/]", "urls: []", "must be a list of URLs"),
        ("//connect-2", f"//me:{SECRET}@connect-2", "connect.urls: a password must be a reference"),
        (
            "http://connect.staging:8083",
            "'http://${env:HOST}:8083'",
            "contexts.staging.connect.url: an address must not contain a reference",
        ),
        (
            "http://connect.staging:8083",
            "'http://connect.staging:8083/${file:x}'",
            "connect.url: an address must not contain a reference",
        ),
        (
            "https://connect-2:8443/",
            "'https://connect-2:8443/${env:TOKEN}'",
            "connect.urls: an address must not contain a reference",
        ),
        (
            "kafka.staging:9092",
            "${env:TOKEN}.evil:9092",
            "kafka.bootstrap_servers: an address must not contain a reference",
        ),
        ("{url: http://connect.staging:8083}", "{}", "needs either url or urls"),
        ("{url: http://connect.staging:8083}", "[]", "contexts.staging.connect: must be a mapping"),
        (
            "patience_seconds: 90",
            "proxy: 'http://${env:X}:1'",
            "connect.proxy: an address must not contain a reference",
        ),
        ("patience_seconds: 90", "proxy: 'http://${env:X}@p:1'", "a URL must not contain a login"),
        ("patience_seconds: 90", "patience_seconds: soon", "must be a number of seconds"),
        ("version: 1", "version: 2", "only supported version"),
        ("contexts:", "context:", "contexts is missing"),
        ("version: 1", f"{{{SECRET}", "not YAML"),
        ("dsns: {orders: ", "dsns: {orders: 7, other: ", "must be text"),
    ],
)
def test_every_mistake_is_told_with_its_place_and_without_its_value(
    folder: Path, old: str, new: str, said: str
) -> None:
    assert old in FILE
    (folder / "cdc-outbox.yaml").write_text(FILE.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        contexts(folder)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_file_that_is_named_goes_before_the_folders_and_that_before_the_users(tmp_path: Path) -> None:
    users = tmp_path / "home" / ".config" / "cdc-outbox" / "contexts.yaml"
    users.parent.mkdir(parents=True)
    home = {"HOME": str(tmp_path / "home")}
    assert contexts_path(home, tmp_path) is None
    users.touch()
    assert contexts_path(home, tmp_path) == users
    (tmp_path / "cdc-outbox.yaml").touch()
    assert contexts_path(home, tmp_path) == tmp_path / "cdc-outbox.yaml"
    variable = home | {"CDC_OUTBOX_CONTEXTS": "x.yaml"}
    assert contexts_path(variable, tmp_path) == Path("x.yaml")
    assert contexts_path(variable, tmp_path, Path("y.yaml")) == Path("y.yaml")


@click.command
@dsns_option(required=True)
@connect_url_option(required=True)
@broker_options()
def show(*, databases: Databases, cluster: Cluster, bootstrap_servers: str, kafka_settings: Path | None) -> None:
    """Say where one would go."""
    _ = kafka_settings
    click.echo(f"{databases.of('orders')} {', '.join(cluster.urls)} {cluster.patience:g} {bootstrap_servers}")


def shown(*arguments: str, **variables: str) -> str:
    done = CliRunner().invoke(name_variables(take_contexts(show)), arguments, env=variables, catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, CdcOutboxError | SystemExit):
        raise done.exception
    return (done.stdout or done.stderr or str(done.exception)).strip()


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CDC_OUTBOX_CONTEXTS", "cdc-outbox.yaml")
    for name in ("CDC_OUTBOX_CONTEXT", "CDC_OUTBOX_DSN", "CDC_OUTBOX_CONNECT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CDC_OUTBOX_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("DB_PASSWORD", "x")


STAGING = "postgresql://deployer:x@db.staging/orders http://connect.staging:8083 30 kafka.staging:9092"


@pytest.mark.usefixtures("here")
def test_the_command_line_counts_before_a_named_context_and_that_before_variables() -> None:
    mine = {"CDC_OUTBOX_DSN": "dbname=mine", "CDC_OUTBOX_CONNECT_URL": "http://localhost:1"}
    assert shown() == STAGING
    assert shown("--context", "staging", **mine) == STAGING
    assert shown(**mine) == "dbname=mine http://localhost:1 30 kafka.staging:9092"
    assert shown(CDC_OUTBOX_CONTEXT="staging", **mine) == shown(**mine)
    assert shown("--context=staging", "--dsn=dbname=y") == STAGING.replace(STAGING.split(maxsplit=1)[0], "dbname=y")
    assert shown("--connect-url=http://a:1,http://b:2", "--connect-patience=5s").split()[1:4] == [
        "http://a:1,",
        "http://b:2",
        "5",
    ]


@pytest.mark.usefixtures("here")
def test_a_named_file_of_contexts_must_exist_even_if_no_option_needs_it() -> None:
    given = ("--dsn=dbname=y", "--connect-url=http://a:1", "--bootstrap-servers=b:1")
    assert shown("--contexts=cdc-outbox.yaml", *given) == "dbname=y http://a:1 30 b:1"
    assert "File 'nowhere.yaml' does not exist." in shown("--contexts=nowhere.yaml", *given)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "connect http://connect.staging:8083; brokers kafka.staging:9092; database db.staging"),
        (["--dsn=dbname=y"], "connect http://connect.staging:8083; brokers kafka.staging:9092"),
        (["--connect-url=http://a:1", "--bootstrap-servers=b:1"], "database db.staging"),
        (["--connect-url=http://a:1", "--bootstrap-servers=b:1", "--dsn=dbname=y"], None),
    ],
)
def test_the_file_and_the_addresses_that_come_of_it_are_said_on_stderr(arguments: list[str], said: str | None) -> None:
    done = CliRunner().invoke(name_variables(take_contexts(show)), arguments, catch_exceptions=False)
    [line, *more] = done.stderr.splitlines() or [""]
    assert more == []
    parts = set(line.removeprefix("context staging of cdc-outbox.yaml: ").split("; "))
    assert parts == ({""} if said is None else set(said.split("; ")))


@pytest.mark.parametrize(
    ("dsn", "host"),
    [
        ("${env:ORDERS_DSN}", "${env:ORDERS_DSN}"),
        ("postgresql://deployer:${env:X}@db:5432/orders", "db:5432"),
        ("postgresql://deployer:${file:/run/x@y}@db/orders?sslmode=require", "db"),
        ("postgresql:///orders?host=db&user=x", "db"),
        ("mysql://u:${env:X}@db/orders", "db"),
        ("host=db hostaddr=10.0.0.1 password='${env:X}'", "db, 10.0.0.1"),
        ("host = 'db' dbname=orders", "db"),
        ("service=orders", "orders"),
        ("dbname=orders", "this machine"),
    ],
)
def test_the_host_of_a_dsn_is_said_without_its_login(dsn: str, host: str) -> None:
    context = Context(name="x", file=Path("x.yaml"), content={"dsn": dsn}, variables={})
    assert context.addresses() == {"database": host, "inbox_database": host}


@pytest.mark.usefixtures("here")
def test_a_login_does_not_go_to_a_url_that_is_not_the_contexts() -> None:
    found: list[Cluster] = []

    @click.command
    @connect_url_option(required=True)
    def take(*, cluster: Cluster) -> None:
        found.append(cluster)

    for arguments in ([], ["--connect-url", "https://elsewhere"]):
        CliRunner().invoke(
            name_variables(take_contexts(take)), ["--context=production", *arguments], catch_exceptions=False
        )
    assert [each.login is None for each in found] == [False, True]


def test_a_login_goes_over_http_only_where_the_context_allows_it(tmp_path: Path) -> None:
    file = tmp_path / "cdc-outbox.yaml"
    text = "contexts: {x: {connect: {url: 'http://connect:8083', bearer: '${env:TOKEN}'%s}}}"
    file.write_text(text % "")
    with pytest.raises(ConfigError, match="a login must not be sent to connect over http"):
        context("x", tmp_path, TOKEN=SECRET).cluster()
    file.write_text(text % ", allow_plaintext_login: true")
    cluster = context("x", tmp_path, TOKEN=SECRET).cluster()
    assert cluster is not None
    assert cluster.login == Bearer(SECRET)
    file.write_text(text % ", allow_plaintext_login: perhaps")
    with pytest.raises(ConfigError, match="must be true or false"):
        contexts(tmp_path)


@pytest.mark.usefixtures("here")
def test_a_context_that_lacks_something_wanted_is_wrong_use() -> None:
    assert "has no context 'nobody'" in shown("--context", "nobody")
    Path("cdc-outbox.yaml").write_text("contexts: {bare: {connect: {url: http://connect:8083}}}")
    assert "Missing option '--dsn'" in shown("--context", "bare")


DSNS = "contexts: {places: {dsns: {orders: 'postgresql://127.0.0.1:1/x', billing: '${env:NOBODYS_DSN}'}}}"


@pytest.mark.parametrize(
    "command",
    [
        ["init", str(ORDERS)],
        ["prune", str(ORDERS), "--keep=7d", "--without-topics"],
        ["verify", str(ORDERS), "--bootstrap-servers=localhost:1"],
        ["preflight", str(ORDERS)],
        ["simulate", str(ORDERS), "--from-table"],
    ],
)
@pytest.mark.usefixtures("here")
def test_a_pipeline_goes_to_its_own_database_and_needs_no_secret_of_another(command: list[str]) -> None:
    Path("cdc-outbox.yaml").write_text(DSNS.replace("dsns:", "inbox_dsn: '${env:NOBODYS_DSN}', dsns:"))
    done = CliRunner().invoke(cli, [*command, "--context=places"], obj=SILENT_TIMINGS)
    assert isinstance(done.exception, DatabaseError), done.output


@pytest.mark.usefixtures("here")
def test_what_only_prints_statements_needs_no_secret() -> None:
    Path("cdc-outbox.yaml").write_text(DSNS.replace("postgresql://127.0.0.1:1/x", "${env:NOBODYS_DSN}"))
    done = CliRunner().invoke(cli, ["init", str(ORDERS), "--sql", "--context=places"], catch_exceptions=False)
    assert "create table" in done.output


def test_every_command_that_a_context_can_tell_something_takes_one() -> None:
    root = click.Context(cli, **cli.context_settings)
    elsewhere = {
        "completion",
        "consume",
        "contexts",
        "contract",
        "explain",
        "lint",
        "monitor",
        "new",
        "render",
        "replay",
        "spec-schema",
        "stack",
    }
    for name in set(cli.list_commands(root)) - elsewhere:
        command = cli.get_command(root, name)
        assert command is not None
        leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        assert all(any("--context" in param.opts for param in leaf.params) for leaf in leaves), name


def test_what_is_resolved_is_not_shown() -> None:
    assert SECRET not in repr(Databases(default=SECRET, by_pipeline={"orders": SECRET}))
    assert SECRET not in repr(Bearer(SECRET))


@pytest.mark.usefixtures("here")
def test_contexts_are_listed_with_references_as_they_stand(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["contexts"])
    assert "* staging  connect: http://connect.staging:8083  brokers: kafka.staging:9092\n" in done.output
    assert "  production  connect: https://connect-1:8443, https://connect-2:8443/  login: basic" in done.output
    assert SECRET not in done.output
    found = json.loads(CliRunner().invoke(cli, ["contexts", "--output=json"]).output)
    assert [(each["name"], each["default"]) for each in found["contexts"]] == [("production", False), ("staging", True)]
    trust, env = ["contexts", "trust", "--output=json"], {"XDG_STATE_HOME": str(tmp_path)}
    told = json.loads(CliRunner().invoke(cli, trust, env=env).stdout)
    assert (told["kind"], told["isTrusted"], told["path"]) == ("Trust", True, str(Path("cdc-outbox.yaml").absolute()))
    assert told["contexts"] == found["contexts"]
    assert any(each["reads"] for each in told["contexts"])
    assert SECRET not in json.dumps(told)
    revoked = CliRunner().invoke(cli, [*trust, "--revoke"], env=env)
    assert json.loads(revoked.stdout)["isTrusted"] is False


def test_the_file_that_the_documentation_shows_is_taken(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text()
    [shown] = [
        block for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "contexts:" in block
    ]
    (tmp_path / "cdc-outbox.yaml").write_text(shown)
    for name in ("ca.pem", "deployer.pem", "deployer.key"):
        (tmp_path / name).touch()
    found = contexts(tmp_path, CONNECT_PASSWORD=SECRET, ORDERS_DSN="x", BILLING_DSN="y")
    cluster = found.find("production").cluster()
    assert cluster is not None
    assert cluster.login == Basic("deployer", SECRET)
    databases = found.find("production").databases()
    assert databases is not None
    assert [databases.of(pipeline) for pipeline in ("orders", "billing")] == ["x", "y"]
