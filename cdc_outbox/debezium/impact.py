"""What a change of a running connector does to who reads its events. Pure.

The table is read from above, and the first entry that fits counts. What it has no word for restarts the task and
changes no message, as far as is known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from cdc_outbox.debezium.normalized_config import OptionDifference, Value

_ROUTER = ("transforms.EventRouter.", "transforms.MongoEventRouter.")
_PLACEMENT = "fields.additional.placement"
_PARTITION = "partition"


class ImpactLevel(StrEnum):
    """How far a change goes."""

    CONNECTOR = "connector"
    """Consumers see nothing but a pause of seconds while the task restarts."""
    MESSAGES = "messages"
    """Messages written from now on are others, or may be; consumers must take both."""
    DANGEROUS = "dangerous"
    """Events would be left out, come twice, go elsewhere or lose their order: only with ``--replace``."""


@dataclass(frozen=True, slots=True)
class Impact:
    """What a change does, in one sentence."""

    reach: ImpactLevel
    text: str


@dataclass(frozen=True, slots=True)
class _Entry:
    options: tuple[str, ...]
    """What their names begin with."""
    reach: ImpactLevel
    text: str
    fits: Callable[[OptionDifference], bool] = lambda _difference: True


def _router(*options: str) -> tuple[str, ...]:
    return tuple(prefix + option for prefix in _ROUTER for option in options)


def _parts(value: Value | None) -> set[str]:
    return set(value) if isinstance(value, tuple) else set()


def _partitions(value: Value | None) -> set[str]:
    return {placed for placed in _parts(value) if placed.split(":")[1:2] == [_PARTITION]}


def _moves_partition(difference: OptionDifference) -> bool:
    return difference.key.endswith(_PLACEMENT) and _partitions(difference.before) != _partitions(difference.after)


def _loses_header(difference: OptionDifference) -> bool:
    return difference.key.endswith(_PLACEMENT) and bool(_parts(difference.before) - _parts(difference.after))


def _snapshots_no_more(difference: OptionDifference) -> bool:
    return difference.before in _SNAPSHOTS_ONCE and difference.after == "no_data"


_SNAPSHOTS_ONCE = {None, "initial", "configuration_based"}
"""The snapshot modes that read rows where there is no offset, and never again; the first is the default."""

_OTHER_KEYS = (
    "Keys become other bytes: events of one aggregate go to another partition from now on, where they may be read "
    "before the earlier ones."
)
_OTHER_PARTITIONS = (
    "Events of one aggregate go to another partition from now on, where they may be read before the earlier ones."
)
_OTHER_VALUES = "Messages written from now on have another form; consumers must take both, for the topic keeps the old."
_LOGIN = "The connector logs in otherwise; messages stay as they are."

_ENTRIES = (
    _Entry(
        ("connector.class",), ImpactLevel.DANGEROUS, "Another connector reads nothing that this one's offsets speak of."
    ),
    _Entry(
        ("slot.name",),
        ImpactLevel.DANGEROUS,
        "What only the old slot holds is not published, and the old slot keeps WAL until it is dropped.",
    ),
    _Entry(
        ("plugin.name",),
        ImpactLevel.DANGEROUS,
        "A slot can be read only by the plugin that it was made with: the task fails.",
    ),
    _Entry(
        ("publication.name",),
        ImpactLevel.DANGEROUS,
        "What the other publication lacks, or lacked when it was written, is left out without a word.",
    ),
    _Entry(
        ("topic.prefix",),
        ImpactLevel.DANGEROUS,
        "Connect keeps offsets under it: the connector begins anew at its slot, and events may come twice.",
    ),
    _Entry(
        ("snapshot.mode",),
        ImpactLevel.CONNECTOR,
        "A connector that has offsets goes on as before; without them it reads no rows, and deploy asks what is to "
        "become of those that no slot holds.",
        _snapshots_no_more,
    ),
    _Entry(("snapshot.mode",), ImpactLevel.DANGEROUS, "A start may publish rows again, or leave some out for good."),
    _Entry(
        ("table.include.list", "collection.include.list", "message.prefix.include.list"),
        ImpactLevel.DANGEROUS,
        "Events are read from elsewhere: what is written where they were read is left out.",
    ),
    _Entry(("key.converter",), ImpactLevel.DANGEROUS, _OTHER_KEYS),
    _Entry(_router("table.field.event.key", "collection.field.event.key"), ImpactLevel.DANGEROUS, _OTHER_KEYS),
    _Entry(("producer.override.partitioner.",), ImpactLevel.DANGEROUS, _OTHER_PARTITIONS),
    _Entry(_ROUTER, ImpactLevel.DANGEROUS, _OTHER_PARTITIONS, _moves_partition),
    _Entry(
        _router("route."),
        ImpactLevel.DANGEROUS,
        "Events go to other topics: consumers that do not read those get nothing more, and no error.",
        lambda difference: "route.tombstone" not in difference.key,
    ),
    _Entry(
        _router("predicate"),
        ImpactLevel.DANGEROUS,
        "The router sees other records: events may pass it by, to another topic.",
    ),
    _Entry(
        _ROUTER,
        ImpactLevel.MESSAGES,
        "Messages lose a header or a field, or it is called otherwise: consumers that need it park them.",
        _loses_header,
    ),
    _Entry(
        _router(f"table.{_PLACEMENT}", f"collection.{_PLACEMENT}"),
        ImpactLevel.MESSAGES,
        "Messages get more headers or fields; consumers that do not know them pass them over.",
    ),
    _Entry(
        _router("table.field.additional.missing", "collection.field.additional.missing"),
        ImpactLevel.CONNECTOR,
        "It counts for rows that lack a column which becomes a header, and for no others.",
    ),
    _Entry((*_ROUTER, "value.converter", "header.converter"), ImpactLevel.MESSAGES, _OTHER_VALUES),
    _Entry(("transforms",), ImpactLevel.MESSAGES, "Another transform sees the messages, or one less does."),
    _Entry(
        ("poll.interval.ms", "producer.override.linger.ms", "max.batch.size", "max.queue.size"),
        ImpactLevel.CONNECTOR,
        "Events arrive sooner or later than now; messages stay as they are.",
    ),
    _Entry(
        ("database.hostname", "database.port", "database.dbname"),
        ImpactLevel.CONNECTOR,
        "The connector reads another server or database, unless it is the same by another name; slot and offset are "
        "compared before.",
    ),
    _Entry(("database.",), ImpactLevel.CONNECTOR, _LOGIN),
    _Entry(("heartbeat.",), ImpactLevel.CONNECTOR, "The slot moves on more or less often while events rest."),
    _Entry(
        ("topic.creation.",),
        ImpactLevel.CONNECTOR,
        "Topics that do not exist yet are made otherwise; those that do stay as they are.",
    ),
    _Entry(
        ("topic.heartbeat.", "transaction."), ImpactLevel.CONNECTOR, "Topics beside the events' change, not theirs."
    ),
)


def impact_of(difference: OptionDifference) -> Impact:
    """Return what a change of a running connector does."""
    for entry in _ENTRIES:
        if difference.key.startswith(entry.options) and entry.fits(difference):
            return Impact(entry.reach, entry.text)
    return Impact(ImpactLevel.CONNECTOR, "Nothing is known of it that changes messages.")
