"""One line of a table: which versions have the field, what it is on the wire, what it is when nobody says.

Annotations are looked at when a codec or a constructor is first needed, not when a table is imported.
"""

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from ottla.errors import InvariantError
from ottla.protocol.primitives import BOOL, FLOAT64, Array, ByteString, Fixed, RecordData, Struct, Text, WireType

NEVER: Final = 1 << 15
"""As a version: later than any that there will be."""

UNSET: Final = object()

PLAIN_TYPES: Final[dict[object, WireType]] = {str: Text(), bytes: ByteString(), bool: BOOL, float: FLOAT64}


class Field:
    """What the value in a table's line says. A plain default means: in all versions."""

    __slots__ = ("default", "nullable_since", "since", "tag", "until")

    def __init__(
        self, since: int = 0, until: int = NEVER, nullable_since: int = 0, tag: int | None = None, default: Any = UNSET
    ) -> None:
        self.since = since
        self.until = until
        self.nullable_since = nullable_since
        self.tag = tag
        self.default = default


def since(version: int, *, until: int = NEVER, nullable_since: int = 0, default: Any = UNSET) -> Any:
    """From `version` on (up to `until`, included)."""
    return Field(version, until, nullable_since, None, default)


def until(version: int, *, nullable_since: int = 0, default: Any = UNSET) -> Any:
    """Up to `version`, included."""
    return Field(0, version, nullable_since, None, default)


def nullable_since(version: int, *, default: Any = UNSET) -> Any:
    """In all versions, but null is allowed only from `version` on."""
    return Field(0, NEVER, version, None, default)


def tagged(tag: int, *, since: int = 0, until: int = NEVER, nullable_since: int = 0, default: Any = UNSET) -> Any:
    """A tagged field of flexible versions: left out where it has its default."""
    return Field(since, until, nullable_since, tag, default)


def wire_type(annotation: object) -> WireType:
    """What an annotation means on the wire, apart from being nullable."""
    if annotation in PLAIN_TYPES:
        return PLAIN_TYPES[annotation]
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in get_args(annotation) if argument is not NoneType)
        return wire_type(inner)
    if origin is Sequence:
        return Array(wire_type(get_args(annotation)[0]))
    for mark in getattr(annotation, "__metadata__", ()):
        if isinstance(mark, Fixed | RecordData):
            return mark
    if isinstance(annotation, type) and hasattr(annotation, "__fields__"):
        return Struct(annotation)
    raise InvariantError(f"{annotation} is no type of the wire")


def is_nullable(annotation: object) -> bool:
    return get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)


def default_of(field: object, annotation: object) -> object:
    """The default that a table's line gives, or the zero of its type."""
    value = field.default if isinstance(field, Field) else field
    return zero(wire_type(annotation)) if value is UNSET else value


def zero(kind: WireType) -> object:
    match kind:
        case Fixed():
            return kind.zero
        case Text():
            return ""
        case ByteString() | RecordData():
            return b""
        case Struct():
            return struct_default(kind.cls)
        case Array():
            return ()


def struct_default(cls: type) -> object:
    """The one instance that stands for "all defaults": it is compared by identity first, so it must be the same one."""
    if "__default__" not in cls.__dict__:
        type.__setattr__(cls, "__default__", cls())
    return cls.__dict__["__default__"]
