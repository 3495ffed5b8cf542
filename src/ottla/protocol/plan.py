"""What one version of a message has on the wire, in order: what the generators of codecs work from."""

from typing import Any, NamedTuple

from ottla.protocol.fields import Field, default_of, is_nullable, wire_type
from ottla.protocol.primitives import Fixed, Struct, Text, WireType


class Present(NamedTuple):
    """A field that this version has."""

    name: str
    kind: WireType
    nullable: bool
    tag: int | None
    default: object


class Absent(NamedTuple):
    """A field of another version: it is what it is by default."""

    name: str
    default: object


class Plan(NamedTuple):
    ordered: list[Present]
    tagged: list[Present]
    absent: list[Absent]


def plan(cls: type[Any], version: int) -> Plan:
    ordered: list[Present] = []
    tagged: list[Present] = []
    absent: list[Absent] = []
    for name, line in cls.__fields__.items():
        annotation = cls.__annotations__[name]
        field = line if isinstance(line, Field) else Field(default=line)
        default = default_of(line, annotation)
        if not field.since <= version <= field.until:
            absent.append(Absent(name, default))
            continue
        nullable = is_nullable(annotation) and version >= field.nullable_since
        present = Present(name, wire_type(annotation), nullable, field.tag, default)
        (ordered if field.tag is None else tagged).append(present)
    tagged.sort(key=lambda present: present.tag or 0)
    return Plan(ordered, tagged, absent)


def size_bytes_min(kind: WireType, version: int, flexible: bool) -> int:
    """The fewest bytes that a value can take: what an array's length is held against before anything is allocated."""
    match kind:
        case Fixed():
            return kind.size_bytes
        case Struct():
            fields = plan(kind.cls, version).ordered
            return flexible + sum(_field_size_bytes_min(field, version, flexible) for field in fields)
        case Text():
            return 1 if flexible else 2
        case _:
            return 1 if flexible else 4


def _field_size_bytes_min(field: Present, version: int, flexible: bool) -> int:
    if field.nullable and isinstance(field.kind, Struct):
        return 1
    return size_bytes_min(field.kind, version, flexible)
