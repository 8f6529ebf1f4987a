"""What operators did about events: who, what, to which of them, and why."""

import logging
from dataclasses import dataclass

from cdc_outbox.redaction import safe_json

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Operator:
    """Who acts.

    Args:
        name: As ``--by`` says it, or the user at this machine: ``ana@laptop``.
        note: Why, for later; ``None`` if nothing was said.
    """

    name: str
    note: str | None = None


def record_action(operator: Operator, what: str, subject: str, **events: object) -> None:
    """Record what an operator did, once it is done; a dry run did nothing.

    It goes to this module's log, at INFO, which the commands do not print: this is the one place where an audit begins.
    A hole in a sequence keeps the note too, and an acceptance of heartbeats the name, for they are written with what
    they explain.

    Args:
        what: The command, such as ``parked skip``.
        subject: The consumer, the pipeline or the table whose events they are.
        events: Which events, and what was decided of them; as JSON, without payloads.
    """
    note = f": {operator.note}" if operator.note else ""
    _LOG.info("%s by %s of %s %s%s", what, operator.name, subject, safe_json(events, default=str), note)
