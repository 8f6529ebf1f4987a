"""One model of each library, and what goes into them."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import msgspec
import pydantic

ID = UUID("0198c0de-0000-7000-8000-000000000001")


class Colour(Enum):
    RED = "red"
    MIX = ("red", 1)


class Word(StrEnum):
    YES = "yes"


class Size(IntEnum):
    BIG = 3


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Line:
    sku: str
    price: Decimal = Decimal("1.10")
    tags: dict[Any, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Broken:
    name: str = field(init=False)


class Model(pydantic.BaseModel):
    sku: str = pydantic.Field(serialization_alias="SKU")
    price: Decimal = Decimal("1.10")
    ratio: float = 0.5
    by_number: dict[int, str] = {1: "a"}
    line: Line | None = None

    model_config = pydantic.ConfigDict(serialize_by_alias=True)


class Secretive(pydantic.BaseModel):
    name: str

    @pydantic.field_serializer("name")
    def _fail(self, value: str) -> str:
        raise KeyError(value)


class Struct(msgspec.Struct, rename="camel", tag=True):
    item_count: int
    ratio: float = 0.5
    id: UUID = ID


class Foreign(msgspec.Struct):
    value: Any


@attrs.define
class Attrs:
    sku: str
    lines: list[Line] = attrs.Factory(list)
