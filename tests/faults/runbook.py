"""Recovery by the documented steps: what a person does who reads the findings, and nothing else."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from subprocess import CompletedProcess

from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.source import Source, read_source
from tests.faults.killed import Program
from tests.support.own_server import OwnServer
from tests.support.rig import eventually
from tests.support.service import Service

ROUNDS = 10
"""How often a person looks again before giving up."""
_REPUBLISH = ("deploy-connector", "--earlier-events=republish", "--stable-for=0s")
_WENT_BACK = frozenset({"OP401", "DB514"})
"""``producer-database.md``."""
_LOST_SLOT = frozenset({"DB511", "DB512", "DB513", "DB515", "OP402", "OP403", "OP404"})
"""``lost-slot.md``."""
_HEARTBEATS = frozenset({"OP402", "OP403", "OP404"})
"""What of that only an acceptance ends."""
_CHANGING = frozenset({"stop", "resume", "deploy-connector", "init", "recover"})
_KILLED_SHARE = 1 / 8
"""How often a command that changes something is killed before it is run."""
_LOST_COMMITS = frozenset({"extra", "conflict"})


@dataclass(frozen=True)
class Found:
    """What `verify` found."""

    kind: str
    place: str
    message: str


@dataclass
class Runbook:
    """The recovery of one pipeline and its consumer, as the pages of ``docs/recovery`` say, in their order.

    Args:
        source: The latest that was ever in use, which a restored database need not know.
        program: Commands that are killed.
        seen: The codes of all errors that this recovery showed.
        messages: What findings about heartbeats said, ever, with the time at which it was said last.
        found: What the last `verify` told.
        left: The codes of the errors that the last `doctor` showed.
        log: Each command with what it said.
    """

    own: OwnServer
    service: Service
    source: Source
    program: Program
    seen: set[str] = field(default_factory=set)
    messages: dict[str, datetime] = field(default_factory=dict)
    found: set[Found] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)
    _statements: list[str] = field(default_factory=list)
    _known: set[Found] = field(default_factory=set)
    """What `verify` told when the recovery before ended."""
    _begun: bool = False
    _republished: bool = False

    def follow(self) -> None:
        """Look, and follow the page of what is found, until nothing is found; then prove it.

        Raises:
            AssertionError: That never came.
        """
        self.seen, self._begun, self._republished = set(), False, False
        for _ in range(ROUNDS):
            if not self._look_and_mend():
                self._prove()
                self._known = self.found
                return
        raise AssertionError(f"the findings do not end: {sorted(self.left)}, {self.found}")

    def _look_and_mend(self) -> bool:
        """Look at everything, follow the first page that it leads to, and tell whether there was one."""
        self.left = self._errors()
        self.seen |= self.left
        if self._statements:
            self._run_statements()
        elif self.left & _WENT_BACK:
            self._follow_restore()
        elif self.left & _LOST_SLOT:
            # As the page about failovers has it: commits may be lost too.
            self.found = self._verify(settle="1s")
            if self._has_lost_commits():
                self._follow_restore()
            else:
                self._follow_lost_slot()
        elif self.left:
            self._deploy()
        elif self.own.pipeline.client.find_status(self.own.pipeline.name).is_halted:
            self.run("resume", "--stable-for=0s")
        else:
            return self._compare()
        return True

    def _compare(self) -> bool:
        """Compare the stages when everything runs, and fix what is not in the topics."""
        self._wait_for_consumer()
        self.found = self._verify("--consumer", self.service.name, "--inbox-dsn", self.service.dsn)
        if self._has_lost_commits():
            self._follow_restore()
        elif "missing" in self.kinds and not self._republished:
            self._follow_lost_slot()
        else:
            return False
        return True

    @property
    def kinds(self) -> set[str]:
        """What the last `verify` told."""
        return {each.kind for each in self.found}

    def _has_lost_commits(self) -> bool:
        return not self._begun and any(each.kind in _LOST_COMMITS for each in self.found - self._known)

    def _errors(self) -> set[str]:
        found = json.loads(self.run("doctor", "--output=json").stdout)["findings"]
        errors = [each for each in found if each["severity"] == "error"]
        self.log += [f"    {each['code']}: {each['message']}" for each in errors]
        self.messages |= {each["message"]: datetime.now(UTC) for each in errors if each["code"].startswith("OP4")}
        self._statements = [each["remedy"] for each in errors if each["remedy"].startswith("alter publication")]
        return {str(each["code"]) for each in errors}

    def _run_statements(self) -> None:
        """Run what a finding about the publication says; it has no page."""
        with self.own.pipeline.connect() as connection:
            connection.execute("; ".join(self._statements).encode())
        self.log += [f"# {statement}" for statement in self._statements]

    def _deploy(self) -> None:
        """Start a connector that does not run, and no more (``failover.md``, step 2)."""
        done = self.run("deploy-connector", "--stable-for=0s")
        if "--earlier-events" in done.stderr:
            self._republish()

    def _follow_restore(self) -> None:
        """Follow ``producer-database.md`` from step 1; what is to be restored is restored."""
        self.run("stop")
        self.run("recover", "--stable-for=0s")
        if self._republish() and self._begin_incarnation():
            self.run("recover", "--accept", "--by=runbook")

    def _follow_lost_slot(self) -> None:
        """Follow ``lost-slot.md``."""
        if self._republish() and self.left & _HEARTBEATS:
            self.run("recover", "--accept", "--by=runbook")

    def _republish(self) -> bool:
        self._republished = self.run(*_REPUBLISH).returncode == 0
        return self._republished

    def _begin_incarnation(self) -> bool:
        """Number from 1 again under the next source, and tell whether that was done."""
        with self.own.pipeline.connect() as connection:
            now = read_source(self.own.pipeline.spec.outbox, Catalog(connection, Psycopg()))
        following = Source(self.source.name, self.source.incarnation + 1)
        self.run("stop")
        done = self.run("init", "--new-incarnation", f"--from-source={now}", f"--to-source={following}")
        self.run("resume", "--stable-for=0s")
        if done.returncode == 0:
            self._begun, self.source = True, following
        return self._begun

    def _verify(self, *options: str, settle: str = "3s") -> set[Found]:
        done = self.run("verify", *options, f"--settle={settle}", "--output=json")
        found = [Found(each["kind"], each["location"], each["message"]) for each in json.loads(done.stdout)["findings"]]
        self.log += [f"    {each.kind}: {each.place}: {each.message}" for each in found]
        return set(found)

    def _prove(self) -> None:
        """Run what a page has under "Proof"; `verify` was the last that was run."""
        for command in "preflight", "recover":
            done = self.run(command)
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def _wait_for_consumer(self) -> None:
        """Wait until the consumer's lag is 0."""
        try:
            eventually(lambda: not lags(self.service), "the consumer to have read everything")
        except AssertionError as error:
            raise AssertionError(f"{error}: {lags(self.service)}, parked {self.service.parked()}") from error

    def run(self, command: str, *arguments: str) -> CompletedProcess[str]:
        """Run a command about the pipeline, sometimes once more after it was killed, and note what it said."""
        if command in _CHANGING and self.program.random.random() < _KILLED_SHARE:
            self.log.append(f"$ {command}: {self.program.kill(command, *arguments)}")
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
