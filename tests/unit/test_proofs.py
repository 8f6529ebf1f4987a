"""Every hazard is provoked or has a reason why not, and the linter finds each one in what is run."""

from types import SimpleNamespace
from typing import cast

import pytest

from cdc_outbox.debezium.explanations import explanations
from cdc_outbox.debezium.lint import lint, lint_all
from cdc_outbox.finding import Severity
from cdc_outbox.message import Message
from tests.proofs import catalogue
from tests.proofs.place import PostgresPlace
from tests.proofs.proof import Proof, config_with
from tests.proofs.proven_in_pairs import Pair
from tests.proofs.unproven import UNPROVEN
from tests.support.configs import config_of

PROOFS = catalogue.PROOFS


def codes_of(proof: Proof) -> list[str]:
    return sorted({finding.code for finding in lint_all(proof.flagged())})


@pytest.mark.parametrize("proof", PROOFS, ids=str)
def test_the_linter_finds_the_hazard_in_what_is_run(proof: Proof) -> None:
    assert codes_of(proof) == sorted({proof.code, *proof.also})


@pytest.mark.parametrize("proof", PROOFS, ids=str)
def test_the_linter_does_not_find_it_in_what_is_mended(proof: Proof) -> None:
    assert proof.code not in {finding.code for finding in lint_all(proof.cleared())}


def test_an_event_that_comes_twice_is_not_seen_where_none_came() -> None:
    [proof] = [proof for proof in PROOFS if isinstance(proof, Pair) and proof.code == "CC907"]

    def shows(*ids: bytes) -> object:
        messages = [Message(topic="t", key=None, value=None, headers=(("id", each),)) for each in ids]
        return proof.shows(cast("PostgresPlace", SimpleNamespace(messages=lambda: messages)))

    assert [bool(shows(*ids)) for ids in ((), (b"1",), (b"1", b"2"), (b"1", b"1"))] == [False, False, False, True]


@pytest.mark.parametrize("sent", catalogue.SENT, ids=str)
def test_the_linter_finds_what_is_no_configuration(sent: catalogue.Sent) -> None:
    assert sent.codes() == [sent.code]


@pytest.mark.parametrize("kind", catalogue.KINDS)
def test_what_is_changed_for_a_proof_is_clean(kind: catalogue.DatabaseKind) -> None:
    assert [finding.code for finding in lint(config_of(config_with(kind, {})))] == []


def test_a_code_is_proven_or_has_a_reason_why_not() -> None:
    # From CC950 on they are what `adopt` tells of a spec, and no hazards.
    known = {code for code in explanations() if "CC" <= code < "CC950"}
    assert catalogue.PROVEN | UNPROVEN.keys() == known
    assert catalogue.PROVEN & UNPROVEN.keys() == set()


def test_an_errors_reason_is_that_it_needs_what_is_not_there() -> None:
    errors = [code for code in UNPROVEN if explanations()[code].severity is Severity.ERROR]
    assert all("need" in UNPROVEN[code] or code == "CC001" for code in errors)


@pytest.mark.parametrize("code", sorted(catalogue.PROVEN))
def test_what_was_seen_is_told(code: str) -> None:
    assert explanations()[code].observed.rstrip(".").endswith("[exec]"), code
