"""Recovery by the documented steps: what a person does who reads the findings, and nothing else."""

import json
import re
from dataclasses import dataclass, field
from subprocess import CompletedProcess
from typing import Any

from cdc_outbox.drivers.psycopg import Psycopg
from cdc_outbox.writer.catalog import Catalog
from cdc_outbox.writer.incarnation import Source, read_source
from tests.support.own_server import OwnServer
from tests.support.rig import eventually
from tests.support.service import Service

ROUNDS = 8
"""How often a person looks again before giving up."""
_REPUBLISH = ("deploy-connector", "--earlier-events=republish", "--stable-seconds=0")
_BROKEN = frozenset({"OP401", "OP402", "OP403", "OP404"})
_HOLES = frozenset({"DB511", "DB512", "DB513", "DB514", "DB515"})
_WENT_BACK = frozenset({"OP401", "DB514"})
_REPUBLISHED = frozenset({"missing", "conflict"})
"""What verify tells of rows that may be in no topic."""
_CONFLICT = re.compile(r"\d is (\S+) (?:at|in) ")


@dataclass
class Runbook:
    """The recovery of one pipeline and its consumer.

    Args:
        source: The latest that was ever in use, which a restored database need not know.
        seen: The codes of all errors that this recovery showed.
        kinds: What the last `verify` told.
        conflicts: The ids of the events that it told to have another one's number.
        left: The codes of the errors that the last `doctor` showed.
        log: Each command with what it said.
    """

    own: OwnServer
    service: Service
    source: Source
    seen: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    conflicts: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    _statements: list[str] = field(default_factory=list)
    _begun: bool = False
    _recovered: bool = False
    _republished: bool = False

    def follow(self) -> None:
        """Follow the findings until none is left that anybody could mend.

        Raises:
            AssertionError: That never came.
        """
        self.seen, self._begun, self._recovered, self._republished = set(), False, False, False
        for _ in range(ROUNDS):
            if not self._look_and_mend():
                return
        raise AssertionError(f"the findings do not end: {sorted(self.left)}, {sorted(self.kinds)}")

    def _look_and_mend(self) -> bool:
        """Look at everything, do the first thing that is said, and tell whether there was one."""
        self.left = self._errors()
        self.seen |= self.left
        if self.left - _BROKEN or (self.left and not self._recovered):
            self._bring_back()
            return True
        if self.own.pipeline.client.find_status(self.own.pipeline.name).is_halted:
            self.run("resume", "--stable-seconds=0")
            return True
        self._wait_for_consumer()
        self.kinds = self._verify()
        if self.kinds & _REPUBLISHED and not self._republished:
            self._republish()
            return True
        if not self._begun and (self.seen & _WENT_BACK or self.kinds & {"extra", "conflict"}):
            self._begin_incarnation()
            return True
        if self.left:
            self.run("recover", "--accept", "--by=runbook")
            return True
        return False

    def _errors(self) -> set[str]:
        found = json.loads(self.run("doctor", "--output=json").stdout)["findings"]
        errors = [each for each in found if each["severity"] == "error"]
        self.log += [f"    {each['code']}: {each['message']}" for each in errors]
        self._statements = [each["remedy"] for each in errors if each["remedy"].startswith("alter publication")]
        return {str(each["code"]) for each in errors}

    def _bring_back(self) -> None:
        """Do what is said of a database that went back, of slot and offset, and of a connector that does not run."""
        if self._statements:
            with self.own.pipeline.connect() as connection:
                connection.execute("; ".join(self._statements).encode())
            self.log += [f"# {statement}" for statement in self._statements]
        elif self.left & _BROKEN and not self._recovered:
            done = self.run("recover", "--yes", "--stable-seconds=0")
            self._recovered = True
            if "where its slot stands" not in done.stdout:
                self._republish()
        elif self.left & _HOLES:
            self._republish()
        else:
            done = self.run("deploy-connector", "--stable-seconds=0")
            if "--earlier-events" in done.stderr:
                self._republish()

    def _republish(self) -> None:
        done = self.run(*_REPUBLISH)
        self._republished = done.returncode == 0

    def _begin_incarnation(self) -> None:
        """Number from 1 again under the next source, as after a restore."""
        with self.own.pipeline.connect() as connection:
            now = read_source(self.own.pipeline.spec.outbox, Catalog(connection, Psycopg()))
        following = Source(self.source.name, self.source.incarnation + 1)
        self.run("stop")
        done = self.run("init", "--new-incarnation", f"--from={now}", f"--to={following}")
        self.run("resume", "--stable-seconds=0")
        if done.returncode == 0:
            self._begun, self.source = True, following

    def _verify(self) -> set[str]:
        done = self.run(
            "verify",
            f"--consumer={self.service.name}",
            f"--inbox-dsn={self.service.dsn}",
            "--settle=3s",
            "--output=json",
        )
        found: dict[str, Any] = json.loads(done.stdout)
        self.log += [f"    {each['kind']}: {each['place']}: {each['message']}" for each in found["findings"]]
        told = (_CONFLICT.search(each["message"]) for each in found["findings"] if each["kind"] == "conflict")
        self.conflicts = {each[1] for each in told if each}
        return {each["kind"] for each in found["findings"]}

    def _wait_for_consumer(self) -> None:
        """Wait until the consumer's lag is 0."""
        try:
            eventually(lambda: not lags(self.service), "the consumer to have read everything")
        except AssertionError as error:
            raise AssertionError(f"{error}: {lags(self.service)}, parked {self.service.parked()}") from error

    def run(self, command: str, *arguments: str) -> CompletedProcess[str]:
        """Run a command about the pipeline, and note what it said."""
        done = self.own.run(command, *arguments)
        said = "" if "json" in " ".join(arguments) else f"{done.stdout}{done.stderr}"
        self.log.append(f"$ {' '.join([command, *arguments])} -> {done.returncode}")
        self.log += [f"    {line}" for line in said.splitlines()]
        return done


def lags(service: Service) -> dict[str, str]:
    """Return how far a consumer has read, of each partition that it has not read to its end, by its database."""
    query = 'select topic, "partition", coalesce(next_offset, 0) from inbox_epochs where consumer = %s'
    read = {(topic, partition): offset for topic, partition, offset in service.rows(query, service.name)}
    broker = service.pipeline.stack.broker
    return {
        f"{topic}/{partition}": f"{read.get((topic, partition))} of {end}"
        for topic in service.pipeline.spec.contract.topics
        for partition, end in broker.ends(topic).items()
        if read.get((topic, partition), 0) < end
    }
