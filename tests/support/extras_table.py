"""Which command needs which extra, found in clean environments.

``.venv/bin/python -m tests.support.extras_table`` writes the page.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdc_outbox.cli.options import read_spec
from cdc_outbox.debezium.render import render
from tests.support.clean_environments import ROOT, Answer, CleanEnvironments, required_by
from tests.support.connect_server import NOBODY, Asked, answering

PAGE = ROOT / "docs" / "dependencies.md"

ENVIRONMENTS: tuple[tuple[str, ...], ...] = ((), ("postgres",), ("kafka",), ("kafka", "postgres"), ("testing",))
"""The extras of each column."""

SPEC, PARTITIONED, SERVICE = "orders.yaml", "partitioned.yaml", "shipping:consumer"
DSN = "--dsn=host=127.0.0.1 port=1"
CONNECT_UP = ("--connect-url=WORKER", "--connect-patience=0s")
CONNECT = ("--connect-url=http://127.0.0.1:1", "--connect-patience=0s")
BROKERS = ("--bootstrap-servers=127.0.0.1:1", "--kafka-settings=no-such.properties")
_NOT_SHOWN = frozenset({"--connect-patience", "--kafka-settings"})

_SERVICE = """
import sqlite3
from cdc_outbox.consumer import Consumer, SequenceMode, WireContract

consumer = Consumer(
    name="shipping",
    contract=WireContract(aggregates={"order": SequenceMode.GAPLESS}),
    kafka={"bootstrap.servers": "127.0.0.1:1", "security.protocol": "none-such"},
    database=lambda: sqlite3.connect("shipping.db", isolation_level=None),
)
consumer.on("OrderPlaced")(lambda event, connection: None)
"""

CLIENT = "confluent-kafka"
DONE = ""
NO_DATABASE, NO_CONNECT = "connection failed", "no Kafka Connect worker answers"
TO_KAFKA = 'Invalid value "none-such"'
"""What librdkafka itself says of a setting: it is refused before a broker is asked, which would take seconds."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """The smallest use of a command, and what it says where every package is there.

    Args:
        ends: A part of what goes to stderr: by which server or file it ended, for none of them is there.
    """

    arguments: tuple[str, ...]
    ends: str

    @property
    def shown(self) -> str:
        """As a reader types it: options without their values."""
        words = []
        for each in self.arguments:
            name = each.partition("=")[0] if each.startswith("--") else each
            shown = "SPEC" if name in {SPEC, PARTITIONED} else "URL" if "://" in name else name
            words += [] if name in _NOT_SHOWN else [shown]
        return " ".join(words)


def _of(ends: str, line: str, *more: str) -> Invocation:
    return Invocation((*line.split(), *more), ends)


INVOCATIONS: tuple[Invocation, ...] = (
    _of(DONE, "adopt connector.json"),
    _of(NO_CONNECT, "adopt --connector=orders", *CONNECT),
    _of(NO_DATABASE, "baseline --consumer=shipping", DSN),
    _of(DONE, "completion bash"),
    _of(TO_KAFKA, f"consume {SERVICE}"),
    _of(DONE, "contexts"),
    _of(DONE, f"contract export {SPEC}"),
    _of("cannot be read", "contexts trust"),
    _of(NO_CONNECT, "delete orders", *CONNECT),
    _of(NO_DATABASE, f"delete {SPEC} --purge", *CONNECT_UP, DSN),
    _of(NO_DATABASE, f"deploy-connector {SPEC}", *CONNECT, DSN),
    _of(NO_DATABASE, f"deploy-connector {SPEC}", *CONNECT, DSN, *BROKERS),
    _of("OP101", f"doctor {SPEC}", *CONNECT),
    _of(NO_DATABASE, f"doctor {SPEC}", *CONNECT, DSN),
    _of(TO_KAFKA, f"doctor {SPEC}", *CONNECT, *BROKERS),
    _of(DONE, "explain CC101"),
    _of(DONE, f"init {SPEC} --sql"),
    _of(NO_DATABASE, f"init {SPEC}", DSN),
    _of(DONE, f"lint {SPEC}"),
    _of("no answer", "monitor health", "http://127.0.0.1:1/health"),
    _of(DONE, "new orders --database=sqlite"),
    _of(NO_CONNECT, "offsets show orders", *CONNECT),
    _of(NO_DATABASE, "offsets show orders", *CONNECT_UP, DSN),
    _of(NO_CONNECT, "offsets set orders --to-offset=0/1", *CONNECT),
    _of(NO_DATABASE, "offsets set orders --to-offset=0/1", *CONNECT_UP, DSN),
    _of(NO_CONNECT, "offsets reset orders", *CONNECT),
    _of(NO_DATABASE, "offsets reset orders", *CONNECT_UP, DSN),
    _of(NO_DATABASE, "parked export --consumer=shipping", DSN),
    _of(NO_DATABASE, "parked list", DSN),
    _of(NO_DATABASE, "parked retry --consumer=shipping --all", DSN),
    _of(NO_DATABASE, "parked show 1 --consumer=shipping", DSN),
    _of(NO_DATABASE, "parked skip 1 --consumer=shipping --note=seen", DSN),
    _of(NO_DATABASE, f"partitions {PARTITIONED}", DSN),
    _of(NO_CONNECT, "pause orders", *CONNECT),
    _of(NO_CONNECT, f"plan {SPEC}", *CONNECT),
    _of(NO_DATABASE, f"plan {SPEC}", *CONNECT, DSN),
    _of(NO_DATABASE, f"preflight {SPEC}", DSN),
    _of(NO_DATABASE, f"preflight {SPEC}", DSN, *BROKERS),
    _of(NO_DATABASE, f"prune {SPEC} --keep=7d --without-topics", DSN),
    _of(TO_KAFKA, f"prune {SPEC} --keep=7d", DSN, *BROKERS),
    _of(NO_DATABASE, "purge-inbox --horizon=30d --accept-shorter-horizon", DSN),
    _of(NO_DATABASE, "purge-inbox --horizon=30d", DSN, *BROKERS),
    _of(TO_KAFKA, f"recover {SPEC}", *CONNECT_UP, DSN, *BROKERS),
    _of(DONE, f"relay {SPEC} --check"),
    _of(TO_KAFKA, f"relay {SPEC}", DSN, *BROKERS),
    _of(NO_DATABASE, f"relay {SPEC} --sink=jsonl", DSN),
    _of(DONE, f"render {SPEC}"),
    _of(TO_KAFKA, f"replay {SERVICE}"),
    _of(NO_DATABASE, f"reset {SPEC} --consumer=shipping --aggregate=order/42", DSN, *BROKERS),
    _of(NO_CONNECT, "restart orders", *CONNECT),
    _of(NO_CONNECT, "resume orders", *CONNECT),
    _of(NO_DATABASE, "resume orders", *CONNECT_UP, DSN),
    _of(DONE, f"simulate {SPEC} --row={{}}"),
    _of(NO_DATABASE, f"simulate {SPEC} --from-table", DSN),
    _of("java", f"simulate {SPEC} --row={{}} --engine=real"),
    _of(DONE, "spec-schema"),
    _of("was not running", "stack down --name=none"),
    _of("no stack named", "stack env --name=none"),
    _of("no stack named", "stack logs --name=none"),
    _of("no stack named", "stack restart --name=none"),
    _of("no stack named", "stack status --name=none"),
    _of("not set in the environment", "stack up --env=NO_SUCH"),
    _of(NO_CONNECT, "status", *CONNECT),
    _of(NO_DATABASE, "status orders", *CONNECT_UP, DSN),
    _of(TO_KAFKA, "status orders", *CONNECT_UP, *BROKERS),
    _of(NO_CONNECT, "stop orders", *CONNECT),
    _of(TO_KAFKA, f"topics create {SPEC}", *BROKERS),
    _of(TO_KAFKA, f"verify {SPEC}", DSN, *BROKERS),
    _of(NO_CONNECT, "watch orders", *CONNECT),
    _of(NO_CONNECT, "watch orders", *CONNECT, *BROKERS),
)


Found = Mapping[Invocation, dict[tuple[str, ...], Answer]]
"""What each invocation printed, by the extras of the environment."""


def _answer(asked: Asked) -> tuple[int, object]:
    """Answer as a worker does that runs one connector, of the spec."""
    config = render(read_spec(ROOT / "connectors" / SPEC))
    task = {"id": 0, "state": "RUNNING", "worker_id": "worker"}
    known = {
        "/connectors": ["orders"],
        "/connectors/orders": {"name": "orders", "config": config, "tasks": [{"connector": "orders", "task": 0}]},
        "/connectors/orders/config": config,
        "/connectors/orders/status": {"name": "orders", "connector": task, "tasks": [task], "type": "source"},
        "/connectors/orders/offsets": {"offsets": []},
    }
    return (200, known[asked.path]) if asked.method == "GET" and asked.path in known else NOBODY


def find(environments: CleanEnvironments) -> Found:
    """Return what each invocation says in each of the environments, which have more and more.

    It is not run where a part of an environment was enough for it, or where the package is missing still.
    """
    found: Found = {each: {} for each in INVOCATIONS}
    brought: dict[tuple[str, ...], set[str]] = {}
    with answering(_answer) as (url, _):
        for extras in ENVIRONMENTS:
            brought[extras] = {*environments.brought_by(extras)}
            known = {each: _known(answers, brought, extras) for each, answers in found.items()}
            left = [each for each, answer in known.items() if answer is None]
            said = dict(zip(left, environments.run(extras, [each.arguments for each in left], url), strict=True))
            for each, answers in found.items():
                answers[extras] = known[each] or said[each]
    return found


def _known(
    answers: Mapping[tuple[str, ...], Answer], brought: Mapping[tuple[str, ...], set[str]], extras: tuple[str, ...]
) -> Answer | None:
    """Return what is said with these extras, as far as it follows from what was said with a part of their packages."""
    for part, answer in answers.items():
        if brought[part] <= brought[extras] and (not answer.missing or answer.missing not in brought[extras]):
            return answer
    return None


def files() -> dict[str, str]:
    """Return the files that the invocations name."""
    spec = (ROOT / "connectors" / SPEC).read_text()
    return {
        SPEC: spec,
        PARTITIONED: spec.replace("  table: outbox\n", "  table: outbox\n  partitions: day\n"),
        "shipping.py": _SERVICE,
        "no-such.properties": "security.protocol=none-such\n",
        "connector.json": "{}",
    }


_PAGE = """# Dependencies

The base install brings {base}.
It is enough for a service that writes events with a database driver of its own, and for every command that connects to
neither a database nor a broker.

An extra adds packages: `pip install 'cdc-outbox[kafka,postgres]'`.

{extras}

A command that needs a package that is not installed fails with exit code 1, before it changes anything:

```
{refusal}```

## Commands

Each command was run in a clean environment of each column. ✓: no package is missing. A name: the command fails because
this package is missing. If only the database driver is missing, `doctor` and `status` report that and show the
rest.

The DSNs in this table are PostgreSQL's. A DSN of MariaDB or MySQL needs the extra `mysql` instead of `postgres`; a DSN
of SQLite needs no extra. If a context has the value of an option, the command needs the same packages as
with the option.

{commands}

## Library

| import | needs |
| --- | --- |
| `cdc_outbox`: `Outbox`, `AsyncOutbox` | the driver of your connection |
| `cdc_outbox.consumer`: `Inbox`, `AsyncInbox` | the driver of your connection |
| `cdc_outbox.consumer`: `Consumer`, `AsyncConsumer` | the driver of your connection; `consumer` to run or replay |
| `cdc_outbox.relay` | `postgres`, and `kafka` unless messages go elsewhere |
| `cdc_outbox.monitoring` | `metrics` for `PrometheusMetrics`, `otel` for `OpenTelemetryMetrics` |
| `cdc_outbox.testing` | `testing` |
| `cdc_outbox.contrib.django` | `django` |
| `cdc_outbox.contrib.alembic` | `alembic` |

`.venv/bin/python -m tests.support.extras_table` writes this page.
"""


def page(environments: CleanEnvironments, found: Found) -> str:
    """Return the page that shows what was found."""
    base = sorted(f"`{each.name}`" for each in required_by(environments.requirements, ""))
    refusal = next(answer for answers in found.values() for answer in answers.values() if answer.missing == CLIENT)
    return _PAGE.format(
        base=f"{', '.join(base[:-1])} and {base[-1]}",
        extras=_table(
            ["extra", "brings"], [[f"`{each}`", _brought(environments, each)] for each in environments.extras]
        ),
        refusal=refusal.said,
        commands=_table(
            ["command", *("base" if not each else ", ".join(f"`{one}`" for one in each) for each in ENVIRONMENTS)],
            [[f"`{each.shown}`", *map(_cell, answers.values())] for each, answers in found.items()],
        ),
    )


def _brought(environments: CleanEnvironments, extra: str) -> str:
    required = [str(each).partition(";")[0].strip() for each in required_by(environments.requirements, extra)]
    return ", ".join(f"`{each}`" for each in sorted(required))


def _cell(answer: Answer) -> str:
    return f"`{answer.missing}`" if answer.missing else "✓"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        clean = CleanEnvironments(Path(made), files())
        PAGE.write_text(page(clean, find(clean)))
