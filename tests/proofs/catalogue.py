"""All proofs together."""

from cdc_outbox.databases.database import DatabaseKind
from tests.proofs import (
    proven_by_an_outage,
    proven_by_asking,
    proven_by_messages,
    proven_by_routing,
    proven_by_running,
    proven_by_slots,
    proven_in_pairs,
    proven_on_mariadb,
)
from tests.proofs.proof import Proof
from tests.proofs.proven_by_asking import Sent
from tests.proofs.proven_in_pairs import Pair
from tests.proofs.proven_on_mariadb import OnMariaDb
from tests.proofs.ran import Ran

__all__ = ["KINDS", "PROOFS", "PROVEN", "SENT", "DatabaseKind", "Sent"]

SENT = proven_by_asking.SENT
RAN: tuple[Ran | Pair | OnMariaDb, ...] = (
    *proven_by_running.RAN,
    *proven_by_messages.RAN,
    *proven_by_slots.RAN,
    *proven_in_pairs.RAN,
    *proven_on_mariadb.RAN,
)
PROOFS: tuple[Proof, ...] = (*proven_by_asking.ANSWERED, *proven_by_routing.ROUTED, *RAN, *proven_by_an_outage.OUTAGES)
PROVEN = frozenset({*(proof.code for proof in PROOFS), *(sent.code for sent in SENT)})
KINDS = (DatabaseKind.POSTGRESQL, DatabaseKind.MARIADB)
"""Whose connectors are run."""
