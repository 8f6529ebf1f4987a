"""What a difference between a configuration and the one that its spec becomes means for who reads the events. Pure.

Three grades: messages stay as they are, messages change or may, events would go missing, come twice or go elsewhere.
What nothing is known of is of the second grade, with the reason for which an override of it is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cdc_outbox.debezium.lint import Config
from cdc_outbox.debezium.normalized_config import OptionDifference, Value
from cdc_outbox.debezium.options.promises import reason_against
from cdc_outbox.finding import Finding, Severity

_ROUTER = ("transforms.EventRouter.", "transforms.MongoEventRouter.")
_PLACEMENT = "fields.additional.placement"
_GRADES = {"CC952": Severity.NOTE, "CC953": Severity.WARNING, "CC954": Severity.ERROR}
_STAYS, _CHANGES, _BREAKS = _GRADES
_NOTHING = ""
_BEFORE_YOU_DEPLOY = "Do not deploy the spec before that is settled."


@dataclass(frozen=True, slots=True)
class Consequence:
    """What it means that some options differ.

    Args:
        options: What their names begin with.
        message: Completes a sentence that begins with the option.
        fits: Of which values before.
    """

    options: tuple[str, ...]
    code: str
    message: str
    remedy: str = _NOTHING
    fits: Callable[[Value | None], bool] = lambda _before: True


def _unset(before: Value | None) -> bool:
    return before is None


def _router(*options: str) -> tuple[str, ...]:
    return tuple(prefix + option for prefix in _ROUTER for option in options)


def _inserts_skipped(before: Value | None) -> bool:
    return isinstance(before, tuple) and "c" in before


_SNAPSHOTS_ONCE = {None, "initial", "no_data", "configuration_based", "recovery"}

_CONSEQUENCES = (
    Consequence(
        ("name", "topic.prefix"),
        _BREAKS,
        "cannot be a name in a spec, and Connect keeps the offsets under it: the connector would begin anew.",
        _BEFORE_YOU_DEPLOY,
    ),
    Consequence(
        ("slot.name",),
        _BREAKS,
        "cannot be said in a spec, and another slot does not hold what this one does.",
        _BEFORE_YOU_DEPLOY,
    ),
    Consequence(
        ("plugin.name",),
        _BREAKS,
        "becomes pgoutput, and a slot can be read only by the plugin that it was made with.",
        "Let the writers rest until the slot is read to its end, drop it, and deploy with --earlier-events skip.",
    ),
    Consequence(
        ("table.include.list", "collection.include.list"),
        _BREAKS,
        "is read differently: a spec's connector captures one table, the outbox.",
        "Keep a connector of its own for what else is captured, and name the outbox in outbox.table if it is another.",
    ),
    Consequence(
        ("snapshot.mode",),
        _STAYS,
        "becomes no_data: a connector that has offsets goes on as before, and one that has none reads no rows.",
        "On PostgreSQL deploy-connector asks what is to become of rows that were never published.",
        lambda before: before in _SNAPSHOTS_ONCE,
    ),
    Consequence(("snapshot.mode",), _CHANGES, "becomes no_data: a start no longer publishes rows of the table again."),
    Consequence(
        ("snapshot.locking.mode",), _STAYS, "is what the spec decides: a first start takes no lock, and no rows."
    ),
    Consequence(
        ("skipped.operations",),
        _BREAKS,
        "left out inserts, which are the events: they are published from now on.",
        fits=_inserts_skipped,
    ),
    Consequence(
        ("skipped.operations", "tombstones.on.delete", *_router("table.op.invalid.behavior")),
        _STAYS,
        "is what the spec decides: no update, deletion or truncation reaches the router, which publishes none of them.",
    ),
    Consequence(
        ("publication.autocreate.mode",),
        _STAYS,
        "becomes disabled: the publication has to be there, as it is where the connector ran.",
    ),
    Consequence(
        ("event.converting.failure.handling.mode",),
        _STAYS,
        "becomes fail: a value that cannot be read stops the connector, instead of becoming null.",
        fits=_unset,
    ),
    Consequence(
        ("capture.",),
        _CHANGES,
        "is what the spec decides: one database, and each change as it was written.",
        "Where the connector read more than that, look whether it goes on from its offset before the old one is gone.",
    ),
    Consequence(
        ("mongodb.",),
        _BREAKS,
        "cannot be said in a spec, and the connector would log in elsewhere.",
        "Correct database.",
    ),
    Consequence(
        ("offset.mismatch.strategy",),
        _STAYS,
        "becomes no_validation: where slot and offset do not fit, Debezium moves neither to the other.",
    ),
    Consequence(
        ("heartbeat.",),
        _STAYS,
        "is what the spec decides: a heartbeat every ten seconds, beside the events, moves the offset while they rest.",
    ),
    Consequence(
        ("message.prefix.",),
        _STAYS,
        "is what the spec decides: logical messages, which are no events of a table, are published nowhere.",
        fits=_unset,
    ),
    Consequence(
        ("topic.creation.default.",),
        _STAYS,
        "is set, for topics that do not exist yet; those that do stay as they are.",
        "Correct topics in the spec if new ones are to be made otherwise.",
        _unset,
    ),
    Consequence(
        ("include.schema.changes",), _STAYS, "becomes false: changes of the schema no longer have a topic of their own."
    ),
    Consequence(
        ("schema.history.internal.store.only.captured.tables.ddl",),
        _STAYS,
        "becomes true: the history keeps the outbox alone from now on.",
    ),
    Consequence(
        ("schema.history.internal",),
        _BREAKS,
        "cannot be said in a spec, and without its history the connector does not go on.",
        _BEFORE_YOU_DEPLOY,
    ),
    Consequence(("database.server.id",), _STAYS, "gets a number, made of the pipeline's name.", fits=_unset),
    Consequence(
        ("lob.enabled",),
        _CHANGES,
        "becomes true: payloads in large columns come with their values, also where they did not.",
    ),
    Consequence(("database.password",), _CHANGES, "is not set; in the spec a reference stands for one.", fits=_unset),
    Consequence(
        ("database.",),
        _BREAKS,
        "cannot be said in a spec, and the connector would log in elsewhere.",
        "Correct database.",
    ),
    Consequence(
        _router("table.field.additional.missing", "collection.field.additional.missing"),
        _STAYS,
        "becomes ignore: a row without a placed column loses that header, instead of stopping the connector.",
    ),
    Consequence(
        _router("route.topic."),
        _BREAKS,
        "cannot be said in a spec: events would go to other topics.",
        "Let consumers read the topics of topics.name, or write it so that they are the same.",
    ),
    Consequence(
        _router("route.tombstone.on.empty.payload"),
        _CHANGES,
        "becomes true: an event without a payload becomes a tombstone, and no message that says null.",
        fits=_unset,
    ),
    Consequence(
        _router("route.tombstone.on.empty.payload"),
        _CHANGES,
        "cannot be said in a spec: an empty payload stays one, and is no tombstone.",
    ),
    Consequence(
        _router("predicate"),
        _BREAKS,
        "lets the router see other records than the spec's outbox.",
        "Look whether outbox.table is the right one.",
    ),
    Consequence(
        _router(""),
        _BREAKS,
        "cannot be said in a spec: messages would be others.",
        "Let consumers read both forms first.",
    ),
    Consequence(
        ("transforms",),
        _BREAKS,
        "does more than a spec's connector, which routes events and leaves them as they are.",
        "Do in the consumers what the transform does.",
    ),
    Consequence(
        ("value.converter.delegate.",), _STAYS, "is what the spec decides: heartbeats, which are no bytes, pass by it."
    ),
    Consequence(
        ("value.converter.schemas.enable",),
        _BREAKS,
        "becomes false: messages come without a schema around them.",
        "Let consumers read both forms first.",
    ),
    Consequence(
        ("key.converter", "value.converter"),
        _CHANGES,
        "is the worker's own; the spec sets the one that its payloads want.",
        "Nothing changes if that is the worker's too: look at its properties.",
        _unset,
    ),
    Consequence(
        ("key.converter",),
        _BREAKS,
        "is another one in the spec: keys are other bytes, and an aggregate moves to another partition.",
        _BEFORE_YOU_DEPLOY,
    ),
    Consequence(
        ("value.converter",),
        _BREAKS,
        "is another one in the spec: messages have other bytes.",
        "Let consumers read both forms first.",
    ),
)


def consequence_of(difference: OptionDifference, before: Config, after: Config) -> Finding:
    """Return what a difference that a spec cannot make good means, as a finding at the option."""
    if difference.key.endswith(_PLACEMENT) and difference.key.startswith(_ROUTER):
        code, message, remedy = _placements(difference)
    else:
        code, message, remedy = _told(difference, after)
    return Finding(
        code=code,
        severity=_GRADES[code],
        location=before.locations(difference.option),
        message=f"{difference.option} {message}",
        remedy=remedy,
    )


def _told(difference: OptionDifference, after: Config) -> tuple[str, str, str]:
    for consequence in _CONSEQUENCES:
        if difference.key.startswith(consequence.options) and consequence.fits(difference.before):
            return consequence.code, consequence.message, consequence.remedy
    reason = reason_against(difference.key, "", after.options)
    told = f"is not carried over: {reason}." if reason else "is not carried over."
    return _CHANGES, told, "Look whether anything depends on it."


def _placements(difference: OptionDifference) -> tuple[str, str, str]:
    """Tell what messages lose and gain; a header more is what consumers pass over."""
    before, after = (
        set(value) if isinstance(value, tuple) else set() for value in (difference.before, difference.after)
    )
    lost, gained = _names(before - after), _names(after - before)
    parts = [f"messages lose {lost}"] * bool(lost) + [f"messages get {gained} more"] * bool(gained)
    parts = parts or ["something is placed twice"]
    message = f"cannot be said so in a spec: {', and '.join(parts)}."
    if lost:
        return (
            _BREAKS,
            message,
            "Let consumers do without, or name columns and headers in outbox so that they are the same.",
        )
    return _CHANGES, message, "Consumers that pass over headers which they do not know notice nothing."


def _names(placements: set[str]) -> str:
    """Return where columns were placed, and as what."""
    told = []
    for placement in sorted(placements):
        _, kind, name = [*placement.split(":"), "", ""][:3]
        told.append("a partition of their own" if kind == "partition" else f"the {kind or 'header'} {name!r}")
    return " and ".join(told)
