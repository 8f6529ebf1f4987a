"""Other connectors that publish the table of a pipeline."""

from dataclasses import dataclass

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import slot_of
from cdc_outbox.debezium.config_texts import find_configs
from cdc_outbox.debezium.explanations import explained
from cdc_outbox.debezium.lint import Config
from cdc_outbox.debezium.lint.several import captured_tables
from cdc_outbox.debezium.render.spec_config import rendered_config
from cdc_outbox.finding import Finding, Location
from cdc_outbox.spec import Spec
from cdc_outbox.text_files.document import Document


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another connector that publishes a pipeline's table.

    Args:
        slot: The slot that it reads; ``None`` if it reads none.
        shares_slot: Whether that slot is the pipeline's too.
    """

    name: str
    table: str
    slot: str | None
    shares_slot: bool = False

    @property
    def finding(self) -> Finding:
        """The finding about this connector."""
        reads, effect, after = "", "so every event is published twice", ""
        if self.shares_slot:
            reads, effect = f" from the same slot {self.slot}", "and only one connector can read a slot"
            after = ", which keeps the slot"
        elif self.slot is not None:
            reads, after = f" from the slot {self.slot}", f", then drop the slot {self.slot}"
        return explained(
            "OP207",
            Location(document="connect", path=self.name),
            f"the connector {self.name} also publishes {self.table}{reads}, {effect}.",
            f"If this pipeline was renamed, restore the name {self.name}. Otherwise run `cdc-outbox delete "
            f"{self.name}`{after}.",
        )


def find_neighbours(spec: Spec, client: ConnectClient) -> tuple[Neighbour, ...]:
    """Return the other connectors of the cluster that publish a pipeline's table, including stopped ones.

    Servers with equal addresses count as the same.
    """
    ours = captured_tables(rendered_config(spec))
    known, _ = find_configs(Document(name="connect", content=client.find_configs()))
    return tuple(
        Neighbour(config.name, table, slot, shares_slot=slot is not None and slot == spec.database.slot)
        for config in known
        if config.name != spec.name
        for table in [next((name for key, name in captured_tables(config).items() if key in ours), None)]
        if table is not None
        for slot in [_slot(config)]
    )


def _slot(config: Config) -> str | None:
    return slot_of(config.options) if config.kind is DatabaseKind.POSTGRESQL else None
