"""What `init` prints goes into psql, which obeys more than SQL: no name is obeyed."""

import json
import subprocess
from pathlib import Path

import psycopg
import pytest

from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.rig import postgres_program
from tests.support.specs import MINIMAL

NAMES = {
    "line feed": "o\n\\! touch m #",
    "carriage return": "o\r\\! touch m #",
    "statement": "o\rcreate table planted (); --",
    "backslash": "o\\! touch m #",
    "quotes": "o\"'$$; \\! touch m #",
    "variable": ":o :'o' :\"o\" {a}",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_psql_obeys_no_name_of_a_printed_script(outbox_stack: Stack, name: str, tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    text = MINIMAL.replace("user: orders_connector", f"user: {json.dumps('c' + name)}")
    spec.write_text(f"{text}outbox: {{table: {json.dumps(name)}}}\n")
    dsn = outbox_stack.postgres.create_database(f"hostile_{list(NAMES.values()).index(name)}")
    printed = run_command("init", spec, "--sql", "--grants", "--writer-role", f"w{name}", "--inbox")
    assert printed.returncode == 0 or "control character" in printed.stderr
    psql = [postgres_program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn]
    subprocess.run(psql, input=printed.stdout, text=True, cwd=tmp_path, check=True)
    assert not (tmp_path / "m").exists()
    with psycopg.connect(dsn) as connection:
        query = "select tablename from pg_tables where schemaname = 'public' and tablename = any(%s) order by 1"
        made = [] if printed.returncode else [(name,)]
        assert connection.execute(query, [["planted", name]]).fetchall() == made
