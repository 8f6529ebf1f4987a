"""`cdc-outbox init --check`: each difference is named, and nothing is changed."""

from pathlib import Path

import psycopg
import pytest

from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    return outbox_stack.postgres.create_database("drift")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_spec(tmp_path)


def write_spec(folder: Path, extra: str = "") -> Path:
    path = folder / "drift.yaml"
    path.write_text(Pipeline.text("drift", extra))
    return path


@pytest.fixture(autouse=True)
def fresh(dsn: str, spec: Path) -> None:
    """Make everything anew."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop publication if exists drift_outbox")
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0


def found(spec: Path, dsn: str) -> list[tuple[str, str]]:
    """Return code and place of each finding, and hold that the exit code says the same."""
    done = run_command("init", str(spec), "--check", "--dsn", dsn)
    lines = done.stdout.splitlines()
    assert done.returncode == (3 if lines else 0), done.stderr
    return [(line.split(": ")[1].split()[1], line.split(": ")[0].removeprefix("database ")) for line in lines]


EARLIER = """
alter table cdc_outbox_version drop constraint cdc_outbox_version_version_check;
update cdc_outbox_version set version = 0
"""


@pytest.mark.parametrize(
    ("change", "code", "place"),
    [
        ("drop table outbox", "DB301", "public.outbox"),
        ("drop publication drift_outbox; alter table outbox set unlogged", "DB302", "public.outbox"),
        ("alter table outbox drop column sequence", "DB303", "public.outbox.sequence"),
        ("alter table outbox drop column tracestate", "DB303", "public.outbox.tracestate"),
        (
            "alter table outbox alter column created_at type timestamptz",
            "DB304",
            "public.outbox.created_at",
        ),
        ("alter table outbox alter column type drop not null", "DB306", "public.outbox.type"),
        ("alter table outbox alter column payload set not null", "DB306", "public.outbox.payload"),
        ("alter table outbox alter column source drop default", "DB307", "public.outbox.source"),
        ("alter table outbox alter column source set default current_user", "DB307", "public.outbox.source"),
        ("alter table outbox alter column created_at set default now()", "DB307", "public.outbox.created_at"),
        ("alter table outbox drop constraint outbox_pkey", "DB308", "public.outbox"),
        ("alter table outbox add column tenant text not null", "DB309", "public.outbox.tenant"),
        ("alter table outbox alter column type type varchar(10)", "DB311", "public.outbox.type"),
        ("alter table outbox alter column created_at type timestamp(3)", "DB311", "public.outbox.created_at"),
        ("create unique index once on outbox (aggregateid, type)", "DB312", "public.outbox.once"),
        ("drop table outbox_heads", "DB321", "public.outbox_heads"),
        ("drop table outbox_publishers", "DB345", "public.outbox_publishers"),
        ("alter table outbox_heads drop column last", "DB322", "public.outbox_heads.last"),
        ("alter table outbox_heads alter column last type integer", "DB311", "public.outbox_heads.last"),
        ("alter table outbox_heads reset (fillfactor)", "DB324", "public.outbox_heads.fillfactor"),
        ("alter table outbox_heads alter column source set default 'drift.2'", "DB332", "public.outbox_heads.source"),
        (
            "insert into outbox values ('6a0f7a0e-8f5c-7f1c-9d49-3f2c6b1f0a11', 'order', '1', 'OrderPlaced', '{}', 1)",
            "DB325",
            "public.outbox_heads",
        ),
        (EARLIER, "DB341", "public.outbox"),
        ("update cdc_outbox_version set version = 99", "DB342", "public.outbox"),
        ("delete from cdc_outbox_version", "DB343", "public.outbox"),
        ("drop table cdc_outbox_version", "DB343", "public.outbox"),
        ("drop publication drift_outbox", "DB401", "drift_outbox"),
        ("alter publication drift_outbox drop table outbox", "DB402", "drift_outbox"),
        ("alter publication drift_outbox set (publish = 'update')", "DB403", "drift_outbox"),
        ("alter publication drift_outbox set table outbox where (sequence > 1)", "DB404", "drift_outbox"),
        ("alter publication drift_outbox set table outbox (id, payload)", "DB405", "drift_outbox"),
        ("alter publication drift_outbox set (publish = 'insert, truncate')", "DB406", "drift_outbox"),
    ],
)
def test_each_change_is_found_with_its_place(dsn: str, spec: Path, change: str, code: str, place: str) -> None:
    assert found(spec, dsn) == []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(change.encode())
    assert (code, place) in found(spec, dsn)


def test_what_changes_nothing_for_events_is_not_drift(dsn: str, spec: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create index on outbox (aggregateid)")
        connection.execute("alter table outbox add column note text")
        connection.execute("alter table outbox add column tenant text not null default 'x'")
        connection.execute("alter table outbox drop constraint outbox_pkey, add primary key (id) include (note)")
    assert found(spec, dsn) == []


def test_one_change_is_one_finding(dsn: str, spec: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter table outbox alter column created_at type timestamptz")
    assert [code for code, _ in found(spec, dsn)].count("DB304") == 1
    assert "DB311" not in [code for code, _ in found(spec, dsn)]


def test_a_renamed_spec_is_found_by_check_and_gets_no_publication(dsn: str, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("name: drift\n", "name: shop\n", 1))
    assert ("DB333", "public.outbox_heads.source") in found(spec, dsn)
    done = run_command("init", str(spec), "--dsn", dsn)
    assert (done.returncode, "--new-incarnation --from-source drift.1" in done.stderr) == (1, True)
    assert ("DB401", "shop_outbox") in found(spec, dsn)


def test_a_database_where_nothing_was_made_has_two_findings(outbox_stack: Stack, tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text(Pipeline.text("drift_empty"))
    dsn = outbox_stack.postgres.create_database("drift_empty")
    assert [code for code, _ in found(path, dsn)] == ["DB301", "DB401"]
    done = run_command("init", "--inbox", "--check", "--dsn", dsn)
    assert (done.returncode, done.stdout.count("DB343")) == (3, 1)


def test_check_names_what_it_checked_and_what_it_did_not(dsn: str, spec: Path) -> None:
    done = run_command("init", str(spec), "--check", "--dsn", dsn)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "as init creates them: outbox public.outbox, publication drift_outbox\nroles are checked only if "
        "they are given: --writer-role ROLE --connector-role connector --relay-role ROLE --migrator-role ROLE "
        "--pruner-role ROLE\n"
    )


def test_of_messages_the_heads_alone_are_checked(dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop publication drift_outbox; drop schema public cascade; create schema public")
    spec = write_spec(tmp_path, "outbox: {mode: message}\n")
    assert found(spec, dsn) == [("DB321", "public.outbox_heads"), ("DB401", "drift_outbox"), ("DB343", "public.outbox")]
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    assert found(spec, dsn) == []
    # A connector of its own: the one of all tests would be made without its password here.
    roles = ("--writer-role=drift_message_writer", "--connector-role=drift_connector")
    grants = run_command("init", str(spec), "--grants", *roles).stdout
    assert 'public"."outbox" to' not in grants
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(grants.encode())
        connection.execute("alter table outbox_heads set unlogged")
    done = run_command("init", str(spec), "--check", "--writer-role=drift_message_writer", "--dsn", dsn)
    assert [line.split(": ")[1].split()[1] for line in done.stdout.splitlines()] == ["DB323"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter table outbox_heads set logged")

    begun = run_command("init", str(spec), "--new-incarnation", "--from-source", "drift.1", "--dsn", dsn)
    assert (begun.returncode, begun.stdout) == (0, "public.outbox: drift.1 -> drift.2\n")
    assert found(spec, dsn) == []
