"""Rules about placements of additional columns: header, envelope or partition."""

from cdc_outbox.debezium.config import Config, Router
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook
from cdc_outbox.text_files.document import did_you_mean

book = Rulebook()

_PLACES = ("header", "envelope", "partition")


@book.router_rule("CC303", ERROR)
def invalid_placement(config: Config, router: Router) -> Hits:
    option = router.prefix + router.placement
    if router.placement in router.options and not router.placements:
        yield Hit(option, f"{router.placement} is empty, and the task fails when it starts.", "Remove the option.")
    for parts in router.placements:
        if len(parts) not in {2, 3}:
            message = f"{':'.join(parts)!r} is not column:placement or column:placement:alias; the task fails."
            yield Hit(option, message, f"Write {parts[0] or 'column'}:header, for example.")


@book.router_rule("CC304", ERROR)
def unknown_placement(config: Config, router: Router) -> Hits:
    for parts in router.placements:
        if len(parts) in {2, 3} and (parts[1].lower() not in _PLACES or not parts[0]):
            message = f"{':'.join(parts)!r} is not a valid placement: the task fails at the first event."
            offer = did_you_mean(parts[1].lower(), list(_PLACES)) or "Use header, envelope or partition."
            yield Hit(router.prefix + router.placement, message, offer)


@book.router_rule("CC305", WARNING)
def duplicate_header(config: Config, router: Router) -> Hits:
    own = router.column("id", "_id" if router.of_mongo else "id")
    placed = router.placed("header")
    if "id" in placed and not any(parts[0] == own for parts in router.placements):
        placed = [name for name in placed if name != "id"]  # CC338 reports it
    for name in _repeated(["id", *placed]):
        also = ", which the router writes itself" if name == "id" else ""
        message = f"another column is placed as the header {name!r}{also}: messages contain it twice."
        yield Hit(router.prefix + router.placement, message, "Remove the placement, or give it another alias.")


@book.router_rule("CC338", ERROR)
def conflicting_id_header(config: Config, router: Router) -> Hits:
    own = router.column("id", "_id" if router.of_mongo else "id")
    for parts in router.placements:
        is_header = len(parts) in {2, 3} and parts[1].lower() == "header"
        if is_header and parts[0] != own and parts[0 if len(parts) == 2 else 2] == "id":
            message = f"the column {parts[0]} is placed as a second header id: consumers read it as the event's id."
            yield Hit(router.prefix + router.placement, message, "Give the column another alias.")


@book.router_rule("CC306", ERROR)
def duplicate_envelope_field(config: Config, router: Router) -> Hits:
    for name in _repeated(["payload", *router.placed("envelope")] if router.has_envelope else []):
        message = f"the envelope contains the field {name!r} twice: the task fails at the first event."
        yield Hit(router.prefix + router.placement, message, "Give the column another alias.")


def _repeated(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


@book.router_rule("CC307", WARNING)
def several_partition_columns(config: Config, router: Router) -> Hits:
    columns = [parts for parts in router.placements if len(parts) > 1 and parts[1].lower() == "partition"]
    if len(columns) > 1:
        message = "several columns are placed as the partition: the router uses the last one, even if it is null."
        yield Hit(router.prefix + router.placement, message, "Keep one of them.")
    if any(len(parts) == 3 for parts in columns):
        yield Hit(router.prefix + router.placement, "the router ignores the alias of a partition.", "Remove the alias.")


@book.router_rule("CC308", NOTE)
def partition_from_a_column(config: Config, router: Router) -> Hits:
    if router.placed("partition"):
        message = "a column sets the partition: it must be a 32-bit integer, or the task fails."
        yield Hit(
            router.prefix + router.placement,
            message,
            "Check that its value is the same for all events of an aggregate.",
        )
