"""What is lost, fails or goes astray where events are logical messages."""

from tests.proofs.place import PostgresPlace
from tests.proofs.proof import Changes
from tests.proofs.ran import Act, Ran, fails, nothing
from tests.support.configs import DECODER

_T = "transforms.outbox.table."
_PLACEMENT = f"{_T}fields.additional.placement"
_MESSAGES: Changes = {
    "transforms": "decode,outbox",
    "transforms.decode.type": DECODER,
    "transforms.decode.fields.null.include": "true",
    f"{_T}field.event.timestamp": None,
    "predicates.isOutbox.pattern": "{name}\\.message",
    "message.prefix.exclude.list": None,
    "message.prefix.include.list": "{name}",
}
_STRICT: Changes = {f"{_T}field.additional.missing": None, f"{_T}fields.additional.error.on.missing": None}
"""A column that is missing fails the task, under any name of the option."""
_MESSAGE = '{"id":"e1","aggregatetype":"order","aggregateid":"42","type":"Placed","payload":%s}'


def _emit(payload: str, more: str = "") -> Act:
    def act(place: PostgresPlace) -> None:
        message = (_MESSAGE % payload)[:-1] + more + "}"
        place.sql(f"select pg_logical_emit_message(true, '{{name}}', '{message}')")

    return act


RAN = (
    Ran(
        code="CC520",
        changes={**_MESSAGES, "transforms": "outbox,decode"},
        fixed=_MESSAGES,
        act=_emit('"x"'),
        shows=lambda place: place.messages("message") and not place.messages(),
    ),
    Ran(
        code="CC521",
        changes={**_MESSAGES, f"{_T}field.event.timestamp": "at"},
        fixed=_MESSAGES,
        act=_emit('"x"', ',"at":1600000000000'),
        shows=fails("ConnectException", "logical"),
    ),
    Ran(
        code="CC522",
        changes={**_MESSAGES, "transforms.decode.fields.null.include": None, **_STRICT, _PLACEMENT: None},
        fixed={**_MESSAGES, **_STRICT, _PLACEMENT: None},
        act=_emit("null"),
        shows=fails("ConnectException", "Unable to find payload field"),
    ),
    Ran(
        code="CC524",
        changes={**_MESSAGES, "message.prefix.include.list": None, "message.prefix.exclude.list": ".*"},
        fixed=_MESSAGES,
        act=_emit('"x"'),
        shows=nothing,
    ),
)
"""On PostgreSQL, a place each."""
