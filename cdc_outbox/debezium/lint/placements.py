"""Where the router places further columns: header, envelope or partition."""

from cdc_outbox.debezium.config import Config, Router
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook
from cdc_outbox.text_files.document import did_you_mean

book = Rulebook()

_PLACES = ("header", "envelope", "partition")


@book.router_rule("CC303", ERROR)
def placement_of_another_form(config: Config, router: Router) -> Hits:
    option = router.prefix + router.placement
    if router.placement in router.options and not router.placements:
        yield Hit(option, f"{router.placement} is empty, and the task fails at its start.", "Leave it out.")
    for parts in router.placements:
        if len(parts) not in {2, 3}:
            message = f"{':'.join(parts)!r} is not column:placement or column:placement:alias; the task fails."
            yield Hit(option, message, f"Write {parts[0] or 'column'}:header, for example.")


@book.router_rule("CC304", ERROR)
def placement_to_nowhere(config: Config, router: Router) -> Hits:
    for parts in router.placements:
        if len(parts) in {2, 3} and (parts[1].lower() not in _PLACES or not parts[0]):
            message = f"{':'.join(parts)!r} goes nowhere: the task fails at the first event."
            offer = did_you_mean(parts[1].lower(), list(_PLACES)) or "It may be header, envelope or partition."
            yield Hit(router.prefix + router.placement, message, offer)


@book.router_rule("CC305", WARNING)
def header_twice(config: Config, router: Router) -> Hits:
    own = router.column("id", "_id" if router.of_mongo else "id")
    placed = router.placed("header")
    if "id" in placed and not any(parts[0] == own for parts in router.placements):
        placed = [name for name in placed if name != "id"]  # of which CC338 tells
    for name in _repeated(["id", *placed]):
        also = ", which the router writes anyway" if name == "id" else ""
        message = f"a column more than needed becomes the header {name!r}{also}: messages have it twice."
        yield Hit(router.prefix + router.placement, message, "Leave it out, or give it another alias.")


@book.router_rule("CC338", ERROR)
def another_id(config: Config, router: Router) -> Hits:
    own = router.column("id", "_id" if router.of_mongo else "id")
    for parts in router.placements:
        is_header = len(parts) in {2, 3} and parts[1].lower() == "header"
        if is_header and parts[0] != own and parts[0 if len(parts) == 2 else 2] == "id":
            message = f"the column {parts[0]} becomes a header id beside the event's: consumers take it for its id."
            yield Hit(router.prefix + router.placement, message, "Give it another alias.")


@book.router_rule("CC306", ERROR)
def envelope_field_twice(config: Config, router: Router) -> Hits:
    for name in _repeated(["payload", *router.placed("envelope")] if router.has_envelope else []):
        message = f"the envelope has a field {name!r} already: the task fails at the first event."
        yield Hit(router.prefix + router.placement, message, "Give the column another alias.")


def _repeated(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


@book.router_rule("CC307", WARNING)
def partition_twice(config: Config, router: Router) -> Hits:
    columns = [parts for parts in router.placements if len(parts) > 1 and parts[1].lower() == "partition"]
    if len(columns) > 1:
        message = "several columns place the partition: the last one wins, also with a null."
        yield Hit(router.prefix + router.placement, message, "Keep one of them.")
    if any(len(parts) == 3 for parts in columns):
        yield Hit(router.prefix + router.placement, "a partition has no name: the alias means nothing.", "Drop it.")


@book.router_rule("CC308", NOTE)
def partition_by_column(config: Config, router: Router) -> Hits:
    if router.placed("partition"):
        message = "a column places the partition: it must be a 32-bit integer, or the task fails."
        yield Hit(router.prefix + router.placement, message, "Make sure that it is the same for all of an aggregate.")
