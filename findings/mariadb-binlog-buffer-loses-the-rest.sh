#!/usr/bin/env bash
# MariaDB 10.11.19 (Debian's packages), Debezium's connector for MariaDB 3.5.0.Final in its embedded engine (Maven),
# PyMySQL 1.1.2, Java 17.
#
# With binlog.buffer.size=20, a committed transaction that does not fit into the buffer is cut off without an error or a
# warning. All tables are InnoDB, binlog_format is ROW, and the server has its default GTIDs.
#
# 1. Of 50 inserts in one transaction, the first 9 arrive (the size counts events of the binlog, and each of these
#    inserts has two). The other 41 never arrive, not even after a restart. The next transaction arrives as usual.
#    A second connector with binlog.buffer.size=0, which reads the same binlog, has all 50.
# 2. The connector logs, at level INFO, that it will read the part that did not fit once more, from a position in the
#    binlog file. But it asks the server for what follows a GTID, and that GTID is the transaction's own: the server's
#    general log has it in @slave_connect_state. So the server skips the rest of the transaction.
# 3. Until the connector is started again, its buffer is off: the next transaction of 50 inserts arrives complete.
#    After a restart, a transaction of 50 inserts is cut off again.
#
# Output seen, after 11 to 35 seconds:
#
#   MariaDB 10.11.19-MariaDB-0+deb12u1-log; Debezium's connector for MariaDB 3.5.0.Final; PyMySQL 1.1.2; openjdk
#       version "17.0.15" 2025-04-15
#   short transaction, 0-1-8: 5 rows committed; next transaction: 5
#       arrived with binlog.buffer.size=20: 5 (ids 1 to 5); next transaction: 5
#       arrived with binlog.buffer.size=0: 5 (ids 1 to 5); next transaction: 5
#   first long transaction, 0-1-10: 50 rows committed; next transaction: 5
#       arrived with binlog.buffer.size=20: 9 (ids 101 to 109); next transaction: 5
#       arrived with binlog.buffer.size=0: 50 (ids 101 to 150); next transaction: 5
#       the server was asked for the binlog after: 0-1-7, 0-1-10
#       log: Buffer full, will need to re-read part of the transaction from binlog from binlog.000001/5206
#   second long transaction, 0-1-12: 50 rows committed; next transaction: 5
#       arrived with binlog.buffer.size=20: 50 (ids 301 to 350); next transaction: 5
#       arrived with binlog.buffer.size=0: 50 (ids 301 to 350); next transaction: 5
#   connector with the buffer: stopped and started again
#   third long transaction, 0-1-14: 50 rows committed; next transaction: 5
#       arrived with binlog.buffer.size=20: 9 (ids 501 to 509); next transaction: 5
#       arrived with binlog.buffer.size=0: 50 (ids 501 to 550); next transaction: 5
#   errors that this connector has logged: 0
#   AS RECORDED: with binlog.buffer.size=20 a committed transaction loses its last rows
#
# Needs Debian with Python 3.9 or newer. As root it installs the missing ones of the packages mariadb-server-core,
# mariadb-client-core, default-jdk-headless, maven and python3-venv; everything else is in a temporary folder and in
# the caches of Maven and pip. Exit status: 0 if the behaviour is as recorded, 1 if it has changed, 2 if the script
# could not observe it.
set -euo pipefail

debezium=3.5.0.Final
pymysql=1.1.2
slf4j=1.7.36
dependency_plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

work=$(mktemp -d)
observer=
# shellcheck disable=SC2317 # the trap calls it
clean_up() {
    if [ -n "$observer" ]; then
        kill "$observer" 2>/dev/null || true # it ends the server and the connectors that it started
        wait "$observer" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 2' HUP INT TERM
chmod 711 "$work" # the server runs as another user if this script runs as root
PATH=$PATH:/usr/sbin:/sbin

cannot_run() {
    echo "CANNOT RUN: $1" >&2
    exit 2
}

# Run a command; show its output only if it fails.
quietly() {
    "$@" >"$work/command.log" 2>&1 </dev/null || {
        cat "$work/command.log" >&2
        cannot_run "$1 failed"
    }
}

packages=()
command -v mariadbd >/dev/null || packages+=(mariadb-server-core)
command -v my_print_defaults >/dev/null || packages+=(mariadb-client-core) # mariadb-install-db runs it
command -v javac >/dev/null || packages+=(default-jdk-headless)
command -v mvn >/dev/null || packages+=(maven)
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
if [ ${#packages[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || cannot_run "these Debian packages are missing: ${packages[*]}"
    quietly apt-get update
    quietly env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${packages[@]}"
fi

dependency() {
    echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version></dependency>"
}
cat >"$work/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId>
  <artifactId>finding</artifactId>
  <version>1</version>
  <dependencies>
    $(dependency io.debezium debezium-api "$debezium")
    $(dependency io.debezium debezium-embedded "$debezium")
    $(dependency io.debezium debezium-connector-mariadb "$debezium")
    $(dependency org.slf4j slf4j-simple "$slf4j")
  </dependencies>
</project>
POM
quietly mvn --batch-mode --quiet --file "$work/pom.xml" "-DoutputDirectory=$work/jars" \
    "$dependency_plugin:copy-dependencies"
quietly python3 -m venv "$work/venv"
quietly "$work/venv/bin/pip" --disable-pip-version-check install "PyMySQL==$pymysql"

mkdir "$work/classes"
cat >"$work/RunEngine.java" <<'JAVA'
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** Prints each change event as a line of JSON; stops in good order when its standard input ends. */
public class RunEngine {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(file);
        }
        DebeziumEngine.CompletionCallback atEnd = (success, message, error) -> {
            if (!success) {
                System.out.println("FAILED " + message);
            }
        };
        DebeziumEngine<?> engine = DebeziumEngine.create(Json.class)
                .using(properties)
                .using(atEnd)
                .notifying(event -> {
                    if (event.value() != null) {
                        System.out.println(event.value());
                    }
                })
                .build();
        Thread running = new Thread(engine, "engine");
        running.setDaemon(true);
        running.start();
        while (System.in.read() != -1) {
            // only the end of the input counts
        }
        engine.close();
        running.join(30_000);
        System.exit(0);
    }
}
JAVA
quietly javac -J-Xmx256m -proc:none -cp "$work/jars/*" -d "$work/classes" "$work/RunEngine.java"

cat >"$work/observe.py" <<'PYTHON'
import json
import os
import pwd
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pymysql

WORK = Path(sys.argv[1])
DEBEZIUM = sys.argv[2]
PATIENCE_S = 180  # for each condition; a busy machine needs some of it
BUFFER_SIZE = 20
LONG, SHORT = 50, 5  # rows in a transaction


class CannotRun(Exception):
    """The behaviour cannot be observed here."""


class Changed(Exception):
    """The connector does something else, after which the rest cannot be observed."""


def wait_for(condition, what, error=CannotRun):
    deadline = time.monotonic() + PATIENCE_S
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise error(f"{what}: not seen in {PATIENCE_S} s")
        time.sleep(0.1)
    return result


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Server:
    """A MariaDB server of its own, run by a user that is not root."""

    def __init__(self):
        self.folder = WORK / "server"
        self.socket = self.folder / "socket"
        self.process = None
        self.as_user = {}
        self.folder.mkdir()
        (self.folder / "tmp").mkdir()
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for path in (self.folder, self.folder / "tmp"):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)

    def start(self):
        with (WORK / "install.log").open("w") as log:
            subprocess.run(
                ["mariadb-install-db", "--no-defaults", f"--datadir={self.folder}/data", f"--tmpdir={self.folder}/tmp",
                 "--auth-root-authentication-method=normal", "--skip-test-db"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, check=True, timeout=PATIENCE_S,
                **self.as_user,
            )
        for _ in range(5):  # another process may take the free port first
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            with (WORK / "server.log").open("w") as log:
                self.process = subprocess.Popen(
                    ["mariadbd", "--no-defaults", f"--datadir={self.folder}/data", f"--tmpdir={self.folder}/tmp",
                     f"--socket={self.socket}", f"--pid-file={self.folder}/pid", "--bind-address=127.0.0.1",
                     f"--port={self.port}", "--skip-name-resolve", "--server-id=1", "--log-bin=binlog",
                     "--binlog-format=ROW", "--default-storage-engine=InnoDB", "--innodb-buffer-pool-size=32M",
                     "--innodb-log-file-size=16M", "--performance-schema=OFF",
                     "--general-log", f"--general-log-file={self.folder}/general.log"],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, **self.as_user,
                )
            if wait_for(lambda: self.process.poll() is not None or self.answers(), "the server's start") == "ready":
                return
        raise CannotRun("the server does not start:\n" + (WORK / "server.log").read_text())

    def connect(self):
        return pymysql.connect(unix_socket=str(self.socket), user="root", autocommit=True)

    def answers(self):
        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return None
        return "ready"

    def requested_positions(self, user):
        """The GTID positions from which the connections of `user` asked for the binlog, in order."""
        threads, positions = set(), []
        for line in (self.folder / "general.log").read_text(errors="replace").splitlines():
            if found := re.search(r"\s(\d+) Connect\s+(\w+)@", line):
                (threads.add if found[2] == user else threads.discard)(found[1])
            elif found := re.search(r"\s(\d+) Query\s+set @slave_connect_state\s*=\s*'([^']*)'", line, re.IGNORECASE):
                if found[1] in threads:
                    positions.append(found[2])
        return positions


class Connector:
    """Debezium's connector for MariaDB in a Java process."""

    def __init__(self, server, user, server_id, buffer_size):
        self.user = user
        self.buffer_size = buffer_size
        self.process = None
        self.output = WORK / f"{user}.events"
        self.log = WORK / f"{user}.log"
        self.properties = WORK / f"{user}.properties"
        password = secrets.token_hex(16)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"create user {user}@'127.0.0.1' identified by '{password}'")
            cursor.execute(
                "grant select, reload, show databases, lock tables, replication slave, replication client"
                f" on *.* to {user}@'127.0.0.1'"
            )
        properties = {
            "name": user,
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "topic.prefix": user,
            "database.hostname": "127.0.0.1",
            "database.port": server.port,
            "database.user": user,
            "database.password": password,
            "database.server.id": server_id,
            "database.ssl.mode": "disable",
            "database.include.list": "shop",
            "table.include.list": "shop.entry",
            "include.schema.changes": "false",
            "snapshot.mode": "initial",
            "binlog.buffer.size": buffer_size,
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": WORK / f"{user}.offsets",
            "offset.flush.interval.ms": 0,
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": WORK / f"{user}.history",
            "converter.schemas.enable": "false",
            "poll.interval.ms": 50,
        }
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def start(self):
        with self.output.open("a") as output, self.log.open("a") as log:
            self.process = subprocess.Popen(
                ["java", "-Xmx256m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={WORK}", "-cp",
                 f"{WORK}/classes:{WORK}/jars/*", "RunEngine", str(self.properties)],
                stdin=subprocess.PIPE, stdout=output, stderr=log, cwd=WORK,
            )

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)

    def failures(self):
        lines = self.output.read_text().splitlines() + self.log.read_text().splitlines()
        return [line for line in lines if line.startswith("FAILED ") or re.match(r"\[.*?\] ERROR ", line)]

    def buffer_messages(self):
        return re.findall(r"EventBuffer - (.*)", self.log.read_text())

    def received(self):
        """The ids of the rows that arrived, without repetitions, in the order of arrival."""
        text = self.output.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        return list(dict.fromkeys(json.loads(line)["after"]["id"] for line in lines if line.startswith("{")))

    def received_of(self, ids):
        return [received for received in self.received() if received in ids]

    def wait_for_rows(self, ids, error=CannotRun):
        name = f"connector with binlog.buffer.size={self.buffer_size}"

        def arrived():
            if self.process.poll() is not None or any(line.startswith("FAILED ") for line in self.failures()):
                raise error(f"the {name} ended; its log closes with:\n{self.log.read_text()[-5000:]}")
            return set(ids) <= set(self.received())

        wait_for(arrived, f"ids {ids.start} to {ids.stop - 1} from the {name}", error)


def insert(connection, ids):
    """Insert the rows in one transaction, a statement for each; return the transaction's GTID."""
    with connection.cursor() as cursor:
        connection.begin()
        for number in ids:
            cursor.execute("insert into shop.entry (id, note) values (%s, 'a row')", (number,))
        connection.commit()
        cursor.execute("select @@last_gtid")
        gtid = cursor.fetchone()[0]
        cursor.execute("select count(*) from shop.entry where id between %s and %s", (ids.start, ids.stop - 1))
        if cursor.fetchone()[0] != len(ids):
            raise CannotRun("the database does not have the rows that were committed")
    return gtid


def shown(ids):
    return f"{len(ids)} (ids {ids[0]} to {ids[-1]})" if ids else "none"


def sequence_number(gtid):
    return int(gtid.rpartition("-")[2])


def observe(server, started):
    server.start()
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("select version()")
        version = cursor.fetchone()[0]
        cursor.execute("create database shop")
        cursor.execute("create table shop.entry (id int primary key, note varchar(20) not null) engine=InnoDB")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    print(f"MariaDB {version}; Debezium's connector for MariaDB {DEBEZIUM};"
          f" PyMySQL {metadata.version('PyMySQL')}; {java}")

    buffered = Connector(server, "buffered", 5001, BUFFER_SIZE)
    plain = Connector(server, "plain", 5002, 0)
    insert(connection, range(1000, 1001))
    for connector in (buffered, plain):
        started.append(connector)
        connector.start()
        connector.wait_for_rows(range(1000, 1001))
    changes = []

    def expect(held, change):
        if not held:
            changes.append(change)

    def write(name, ids, following):
        """Commit a transaction and a short one; when the short one has arrived, nothing more comes of the first."""
        gtid = insert(connection, ids)
        insert(connection, following)
        print(f"{name}, {gtid}: {len(ids)} rows committed; next transaction: {len(following)}")
        plain.wait_for_rows(following)
        buffered.wait_for_rows(following, Changed)
        for connector in (buffered, plain):
            print(f"    arrived with binlog.buffer.size={connector.buffer_size}: {shown(connector.received_of(ids))};"
                  f" next transaction: {len(connector.received_of(following))}")
        expect(plain.received_of(ids) == list(ids), f"{name}: rows are missing with binlog.buffer.size=0")
        return gtid

    def expect_all(name, ids):
        arrived = buffered.received_of(ids)
        expect(arrived == list(ids), f"{name}: rows are missing with binlog.buffer.size={BUFFER_SIZE}")

    def expect_loss(name, ids):
        arrived = buffered.received_of(ids)
        expect(arrived != list(ids), f"{name}: all {len(ids)} rows arrive with binlog.buffer.size={BUFFER_SIZE}")
        expect(arrived and arrived == list(ids)[: len(arrived)], f"{name}: it is not the last rows that are missing")

    fitting = range(1, 1 + SHORT)
    write("short transaction", fitting, range(11, 11 + SHORT))
    expect_all("short transaction", fitting)

    first = range(101, 101 + LONG)
    gtid = write("first long transaction", first, range(201, 201 + SHORT))
    expect_loss("first long transaction", first)
    positions = server.requested_positions("buffered")
    print(f"    the server was asked for the binlog after: {', '.join(positions)}")
    expect(len(positions) > 1 and sequence_number(positions[-1]) >= sequence_number(gtid),
           f"the connector does not continue after {gtid} when its buffer is full")
    expect(buffered.buffer_messages(), "the log does not mention the full buffer")
    for message in buffered.buffer_messages():
        print(f"    log: {message}")

    second = range(301, 301 + LONG)
    write("second long transaction", second, range(401, 401 + SHORT))
    expect_all("second long transaction", second)

    lost = set(first) - set(buffered.received_of(first))
    print("connector with the buffer: stopped and started again")
    buffered.stop()
    buffered.start()
    third = range(501, 501 + LONG)
    write("third long transaction", third, range(601, 601 + SHORT))
    expect_loss("third long transaction", third)
    expect(not lost & set(buffered.received()), "lost rows of the first long transaction arrive after a restart")

    failures = buffered.failures()
    print(f"errors that this connector has logged: {len(failures)}")
    for line in failures:
        print(f"    {line}")
    expect(not failures, "the connector logs an error")
    connection.close()
    return changes


def main():
    server, started = Server(), []
    try:
        changes = observe(server, started)
    except Changed as change:
        changes = [change]
    except (CannotRun, OSError, subprocess.SubprocessError, pymysql.err.Error) as error:
        print(f"CANNOT RUN: {error}", file=sys.stderr)
        return 2
    finally:
        for connector in started:
            if connector.process is not None:
                end(connector.process)
        if server.process is not None:
            end(server.process)
    for change in changes:
        print(f"CHANGED: {change}")
    if changes:
        return 1
    print(f"AS RECORDED: with binlog.buffer.size={BUFFER_SIZE} a committed transaction loses its last rows")
    return 0


SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def stop_at_signal(*_):
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(2)


for number in SIGNALS:
    signal.signal(number, stop_at_signal)
sys.stdout.reconfigure(line_buffering=True)
sys.exit(main())
PYTHON
"$work/venv/bin/python" "$work/observe.py" "$work" "$debezium" </dev/null &
observer=$!
status=0
wait "$observer" || status=$?
observer=
exit "$status"
