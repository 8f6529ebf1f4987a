"""The struct that payload and placed columns become together, and how the EventRouter remembers its schemas."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_outbox.contract.placements import Placement, PlacementKind
from cdc_outbox.debezium.event_router.java import connect_exception, data_exception, null_pointer_exception
from cdc_outbox.debezium.event_router.values import ConnectSchema, ConnectStruct, ConnectType, ConnectValue, Scalar
from cdc_outbox.errors import RoutingError

PAYLOAD = "payload"
"""The envelope's first field, whatever the column is called."""


@dataclass(slots=True)
class EnvelopeMemory:
    """The envelope schemas that one running EventRouter made so far, which it takes again.

    One is found by the payload's schema alone, or by the version alone: the aggregate type that came first gives its
    name to them all, and a version whose payload has another type afterwards does not fit.
    """

    by_payload: dict[ConnectSchema, ConnectSchema] = field(default_factory=dict)
    by_version: dict[int | None, ConnectSchema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnvelopePlan:
    """Which columns go into the envelope.

    Args:
        checks_missing: Whether a missing column is looked for; Debezium 3.5 runs into it, ignored or not.
    """

    placements: tuple[Placement, ...]
    ignores_missing: bool
    checks_missing: bool

    def schema(self, payload: ConnectSchema, row: Mapping[str, ConnectValue], name: str) -> ConnectSchema:
        """Return the schema of a row's envelope.

        Raises:
            RoutingError: A column is missing, or two fields have the same name.
        """
        fields = {PAYLOAD: payload}
        for placement in self.placements:
            if placement.kind is not PlacementKind.ENVELOPE:
                continue
            if placement.column not in row:
                if self.checks_missing and self.ignores_missing:
                    continue
                raise self._missing(placement.column)
            if not placement.name or placement.name in fields:
                raise RoutingError(
                    f"the envelope has no field {placement.name!r}, or has it twice", exception="SchemaBuilderException"
                )
            fields[placement.name] = row[placement.column].schema
        return ConnectSchema(type=ConnectType.STRUCT, name=name, optional=False, fields=tuple(fields.items()))

    def _missing(self, column: str) -> RoutingError:
        if not self.checks_missing:
            return null_pointer_exception(f"there is no column {column}, and Debezium 3.5 does not look")
        return connect_exception(f"Unable to find field {column} in event")


@dataclass(slots=True)
class Envelope:
    """A struct that is being filled."""

    schema: ConnectSchema
    values: dict[str, Scalar | None] = field(default_factory=dict)

    def put(self, name: str, value: ConnectValue) -> None:
        """Set a field.

        Raises:
            RoutingError: The remembered schema has no such field, or one of another type.
        """
        schema = dict(self.schema.fields).get(name)
        if schema is None:
            raise data_exception(f"{name} is not a valid field name")
        if value.value is None and not schema.optional:
            raise data_exception(f"Invalid value: null used for required field {name!r}")
        if value.value is not None and value.schema.java_class != schema.java_class:
            raise data_exception(f"Invalid Java object for schema with type {schema.type}: field {name!r}")
        self.values[name] = value.value

    def struct(self) -> ConnectStruct:
        """Return what it is now."""
        return ConnectStruct(self.schema, self.values)


def envelope_name(row_schema: str | None, aggregate_type: str | None) -> str:
    """Return an envelope's schema name: the row's, with the aggregate type before its last part."""
    # Java writes a missing one as a word.
    routed_by = "null" if aggregate_type is None else aggregate_type
    if row_schema is None:
        return routed_by
    prefix, dot, last = row_schema.rpartition(".")
    return f"{prefix}{dot}{routed_by}.{last}"


def versioned(schema: ConnectSchema, version: int | None) -> ConnectSchema:
    """Return the schema with a version."""
    return replace(schema, version=version)
