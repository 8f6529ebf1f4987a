"""Exit codes: a table of commands and situations, without servers."""

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.commands import run_command
from tests.support.configs import CLEAN, D5
from tests.support.connect_server import BROKEN, NOBODY, REBALANCING, Answer, Asked, answering
from tests.support.golden import golden, neutral
from tests.support.specs import MINIMAL

SQLITE = "version: 1\nname: orders\ndatabase: {kind: sqlite}\naggregates: {order: {}}\n"
FILES = {
    "good.yaml": MINIMAL,
    "wrong.yaml": f"{MINIMAL}latncy: low\n",
    "mariadb.yaml": MINIMAL.replace("postgresql", "mariadb"),
    "sqlite.yaml": SQLITE,
    "renamed.yaml": SQLITE.replace("orders", "shop"),
    "changed.yaml": f"{MINIMAL}overrides: {{topic.creation.default.retention.ms: 1000}}\n",
    "warned.json": json.dumps({**next(iter(CLEAN.values())), "database.sslmode": "require"}),
    "connector.json": D5,
    "settings.properties": "enable.auto.commit=true\n",
    "contexts.yaml": "contexts: {own: {dsns: {shipping: 'dbname=shipping'}}}\n",
    "empty.db": "",
}
DATABASE, CONNECT = "postgresql://me@127.0.0.1:1/orders?connect_timeout=1", "http://127.0.0.1:1"
ALL_SILENT = {
    "CDC_OUTBOX_DSN": DATABASE,
    "CDC_OUTBOX_CONNECT_URL": CONNECT,
    "CDC_OUTBOX_CONNECT_PATIENCE": "0s",
}
WITH_BROKERS = ALL_SILENT | {"CDC_OUTBOX_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
NEED_BROKERS = ("recover", "topics create", "verify")
TAKE_SPEC = (
    *("adopt", "delete", "deploy-connector", "doctor", "init", "lint", "offsets show", "offsets reset --yes"),
    *("partitions", "pause", "plan", "preflight", "prune", "recover", "render", "restart", "resume"),
    *("simulate --row {}", "status", "stop", "topics create", "verify", "watch"),
)
"""Commands whose argument may be a spec."""
OTHERS = (
    *("", "--version", "nonsense", "lnt", "contexts", "contexts nonsense", "completion", "completion bash"),
    *("completion csh", "explain", "explain CC101", "explain XX999", "explain --all", "spec-schema"),
    *("new", "new orders", "new 'o rders'", "new orders --output good.yaml", "stack", "stack env", "stack logs"),
    *("monitor", "monitor health", "monitor health file:///x", "monitor health http://127.0.0.1:1/health"),
    *("consume", "consume nonsense", "consume nowhere:consumer", "replay", "replay nowhere:consumer"),
    *("lint .", "lint - ", "lint connector.json", "lint warned.json", "lint warned.json --strict", "lint good.yaml"),
    *("lint good.yaml --debezium x", "lint good.yaml --output xml", "lint --fix -", "lint connector.json --report ci"),
    *("adopt connector.json", "simulate connector.json", "simulate good.yaml --row {", "simulate good.yaml --row {}"),
    *("simulate good.yaml --row '{\"id\": 1}' --column-type x=y", "simulate good.yaml --from-table"),
    *("relay", "relay good.yaml", "relay good.yaml --check", "relay mariadb.yaml --check", "relay good.yaml --sink x"),
    *("render sqlite.yaml", "render mariadb.yaml", "render good.yaml --target x", "init", "init good.yaml --sql"),
    *(
        "init sqlite.yaml --grants",
        "init --inbox --sql",
        "init good.yaml --sql --check",
        "init good.yaml --from-source x.1",
    ),
    *(
        "init good.yaml --inbox-schema x",
        "init good.yaml --grants --writer-role w",
        "init --inbox --grants --writer-role w",
    ),
)
ON_CONNECT = (
    *("plan good.yaml", "doctor good.yaml", "status", "status orders", "status good.yaml", "status --output json"),
    *("pause orders", "resume orders", "stop orders", "restart orders", "delete orders", "offsets show orders"),
    *(
        "offsets reset orders",
        "adopt --connector orders",
    ),
)
ON_DATABASE = (
    *("deploy-connector good.yaml", "init good.yaml", "init --inbox", "partitions good.yaml", "preflight good.yaml"),
    *("parked list", "baseline --consumer c --aggregate order/1 --source orders.1", "init mariadb.yaml"),
    *("purge-inbox --horizon 30d", "simulate good.yaml --from-table", "prune good.yaml --keep 7d"),
)
DSNS = (
    *("nobody://knows", "postgresql+psycopg://me@x/y", "sqlite:///nowhere/x.db", "'host=127.0.0.1 b=c'"),
    *("host=x dbname=c", "mysql://me@127.0.0.1:1/x"),
)
ON_RUNNING = (
    *("plan good.yaml", "plan changed.yaml", "doctor good.yaml", "doctor good.yaml --strict", "status"),
    *("status orders", "status nobody", "adopt --connector orders", "offsets show orders"),
    *(f"status --dsn {DATABASE}", "status --dsn nonsense", "status --context own --contexts contexts.yaml"),
)
LOGIN: Answer = (401, {"error_code": 401, "message": "no"})
ON_SQLITE = (
    *("init sqlite.yaml --inbox --check", "parked list", "verify sqlite.yaml", "init sqlite.yaml --inbox"),
    *("init sqlite.yaml --inbox", "init sqlite.yaml --inbox --check", "init renamed.yaml", "init good.yaml"),
    *("init sqlite.yaml --new-incarnation", "init sqlite.yaml --new-incarnation --from-source x.1"),
    *("init sqlite.yaml --new-incarnation --from-source orders.1", "parked list", "parked list --consumer c"),
    *("parked show 1 --consumer c", "parked retry 1 --consumer c", "parked skip 1 --consumer c"),
    *("parked skip 1 --consumer c --note n", "parked retry --consumer c", "parked export"),
    *("parked list --state nonsense", "baseline", "baseline --consumer c", "purge-inbox"),
    *("purge-inbox sqlite.yaml", "purge-inbox --horizon 30d", "prune sqlite.yaml --keep 7d"),
    *("partitions sqlite.yaml", "preflight sqlite.yaml", "reset sqlite.yaml", "doctor sqlite.yaml"),
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


def row(command: str, env: dict[str, str] | None = None) -> str:
    """Run a command and return its exit code and the line that says why."""
    done = run_command(*shlex.split(command), env=env)
    lines = [line for line in done.stderr.splitlines() if line.lower().startswith("error:")]
    why = neutral(lines[0]) if lines else ""
    return f"{done.returncode:>3}  {command}{'  # ' if why else ''}{why}"


def test_wrong_use_and_wrong_files() -> None:
    rows = [row(command) for command in OTHERS]
    for command in TAKE_SPEC:
        known = WITH_BROKERS if command in NEED_BROKERS else ALL_SILENT
        rows += [
            row(f"{command}{argument}", {} if "nothing else" in what else known)
            for what, argument in (
                ("no argument", ""),
                ("an unknown option", " good.yaml --nonsense"),
                ("no file", " nowhere.yaml"),
                ("a wrong spec", " wrong.yaml"),
                ("nothing else is known", " good.yaml"),
            )
            if not (command == "watch" and what == "no argument")
        ]
    golden("exit-codes/use.txt").check("\n".join(rows))


def test_silent_databases_and_connects() -> None:
    rows = [row(command, ALL_SILENT) for command in (*ON_CONNECT, *ON_DATABASE)]
    for dsn in DSNS:
        rows += [row(f"{command} --dsn {dsn}", {}) for command in ("init --inbox", "init good.yaml")]
    golden("exit-codes/silence.txt").check("\n".join(rows))


def test_settings_of_brokers() -> None:
    rows = [
        row(f"topics create good.yaml --kafka-settings {file}", WITH_BROKERS)
        for file in ("settings.properties", "nowhere.properties")
    ]
    golden("exit-codes/brokers.txt").check("\n".join(rows))


@pytest.mark.parametrize("answer", [NOBODY, BROKEN, REBALANCING, LOGIN], ids=lambda answer: str(answer[0]))
def test_answers_of_connect(answer: Answer) -> None:
    with answering(lambda _asked: answer) as (url, _):
        env = {"CDC_OUTBOX_CONNECT_URL": url, "CDC_OUTBOX_CONNECT_PATIENCE": "0s", "CDC_OUTBOX_TIMEOUT": "1s"}
        rows = [row(command, env) for command in ON_CONNECT]
    golden(f"exit-codes/connect-{answer[0]}.txt").check("\n".join(rows))


def test_a_connector_that_runs() -> None:
    config = json.loads(run_command("render", "good.yaml").stdout)
    status = {"connector": {"state": "RUNNING"}, "tasks": [{"id": 0, "state": "RUNNING"}]}

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/status"):
            return 200, status
        if asked.path.startswith("/connectors?"):
            return 200, {"orders": {"info": {"config": config}, "status": status}}
        if asked.path == "/connectors":
            return 200, ["orders"]
        others = {"configs": [], "offsets": [], "orders": {"topics": []}}
        return 200, config if asked.path.endswith("/config") else others

    with answering(answer) as (url, _):
        env = {"CDC_OUTBOX_CONNECT_URL": url, "CDC_OUTBOX_CONNECT_PATIENCE": "0s", "CDC_OUTBOX_TIMEOUT": "1s"}
        rows = [row(command, env) for command in ON_RUNNING]
    golden("exit-codes/connector-runs.txt").check("\n".join(rows))


def test_findings_and_differences_in_a_database() -> None:
    env = {"CDC_OUTBOX_DSN": "sqlite:///empty.db"}
    rows = [row(command, env) for command in ON_SQLITE]
    with closing(sqlite3.connect("empty.db")) as connection:
        connection.execute("drop table outbox")
    rows += [row(command, env) for command in ("init sqlite.yaml --check", "verify sqlite.yaml")]
    golden("exit-codes/sqlite.txt").check("\n".join(rows))
