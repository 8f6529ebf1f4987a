"""What two connectors do to each other."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cdc_outbox.debezium.lint import Config
from tests.proofs.place import PostgresPlace
from tests.proofs.proof import Changes, Proof
from tests.proofs.ran import Seen, Site, arrives, nothing
from tests.support.configs import config_of

_TWO = "{name}_two"
_OTHER_TABLE: Changes = {
    "table.include.list": "{name}\\.outbox_two",
    "predicates.isOutbox.pattern": "{name}_two\\.{name}\\.outbox_two",
}
OWN: Changes = {"name": _TWO, "topic.prefix": _TWO, "slot.name": _TWO, "publication.name": _TWO, **_OTHER_TABLE}
"""What a second connector has of its own, where it takes nothing of the first one's."""

_PREPARE = (
    "create table {name}.outbox_two (like {name}.outbox including all);\n"
    "grant all on {name}.outbox_two to connector;\n"
    "create publication {name}_two for table {name}.outbox_two, {name}.outbox;\n"
    "select pg_create_logical_replication_slot('{name}_two', 'pgoutput')"
)
_OWNER = (
    "alter publication {name} owner to connector;\n"
    "alter publication {name}_two owner to connector;\n"
    "alter table {name}.outbox owner to connector;\n"
    "alter table {name}.outbox_two owner to connector"
)


@dataclass(frozen=True, kw_only=True)
class Pair(Proof):
    """A hazard of a second connector beside a clean one.

    Args:
        changes: What the second one has that is not its own.
        first: What is changed in the first one.
        fixed_first: What is changed in it besides, beside a fixed second one.
        shows: Whether the hazard is seen, at the place of the first one.
    """

    shows: Seen
    first: Changes = field(default_factory=dict)
    fixed_first: Changes = field(default_factory=dict)
    prepare: str = ""
    apart: bool = False

    def both(self, changes: Changes, **names: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return both configurations."""
        first = {**self.first, **(self.fixed_first if changes is self.fixed else {})}
        return self.config(first, **names), self.config({**OWN, **self.first, **changes}, **names)

    def linted(self, changes: Changes) -> Sequence[Config]:
        """Return both as the linter reads them."""
        first, second = self.both(changes)
        return config_of(first, name="one.json"), config_of(second, name="two.json")

    def prove(self, site: Site) -> None:
        """Run the first, then the second beside it, then the second with nothing of the first."""
        with site.room.taken(2):
            with self._beside(site, self.changes) as place:
                place.until(lambda: self.shows(place))
            with self._beside(site, self.fixed) as place:
                place.until(lambda: arrives(place))
                assert not self.shows(place)

    @contextmanager
    def _beside(self, site: Site, changes: Changes) -> Iterator[PostgresPlace]:
        prepare = f"{_PREPARE};\n{self.prepare}"
        with site.place(self.code, apart=self.apart, prepare=prepare) as place:
            first, second = self.both(changes, name=place.name, database=place.database)
            place.deploy(first)
            place.until(lambda: place.reader(first.get("slot.name", "debezium")))
            place.deploy(second)
            place.until(lambda: place.reader(f"{place.name}_two") or self.shows(place))
            place.event()
            place.mark()
            yield place


RAN = (
    Pair(
        code="CC602",
        apart=True,
        first={"slot.name": None, "slot.max.retries": "1", "slot.retry.delay.ms": "100"},
        changes={"slot.name": None},
        fixed={"slot.name": _TWO},
        fixed_first={"slot.name": "{name}"},
        also=("CC901",),
        shows=lambda place: 'replication slot "debezium" is active for PID' in place.log(),
    ),
    Pair(
        code="CC901",
        first={"slot.max.retries": "1", "slot.retry.delay.ms": "100"},
        changes={"slot.name": "{name}"},
        shows=lambda place: (
            f'replication slot "{place.name}" is active for PID' in place.log()
            and [task.state for task in place.status("_two").tasks] == ["RUNNING"]
        ),
    ),
    Pair(
        code="CC902",
        changes={"topic.prefix": "{name}", "predicates.isOutbox.pattern": "{name}\\.{name}\\.outbox_two"},
        shows=lambda place: re.search(f"an old set with the same name: .*server={place.name}' exists", place.log()),
    ),
    Pair(
        code="CC904",
        apart=True,
        prepare=_OWNER,
        first={"publication.autocreate.mode": "filtered", "skipped.operations": None},
        changes={"publication.name": "{name}"},
        shows=lambda place: place.reader(f"{place.name}_two") and nothing(place),
    ),
    Pair(
        code="CC906",
        changes={"name": "{name}"},
        shows=lambda place: (place.client.find_config(place.name) or {})["topic.prefix"] == f"{place.name}_two",
    ),
    Pair(
        code="CC907",
        changes={
            "table.include.list": "{name}\\.outbox",
            "predicates.isOutbox.pattern": "{name}_two\\.{name}\\.outbox",
        },
        shows=lambda place: (
            len(ids := [dict(message.headers)["id"] for message in place.messages()]) == 2 and ids[0] == ids[1]
        ),
    ),
)
