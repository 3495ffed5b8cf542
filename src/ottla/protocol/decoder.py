"""Writes the function that decodes one version of a message.

The function is straight-line code over the whole tree of structs: nothing is called per field. Fields of fixed size
that follow each other, and the length of what comes after them, are read by one `unpack_from`. In flexible versions
that length is a varint, whose first byte is read with the run and which nearly always ends there.

Bounds: `unpack_from` and indexing fail by themselves at the end of the buffer; before a slice is made or a list is
filled, its length is compared with what is left; and the elements of all arrays together have a limit, since an
element of two bytes on the wire is a hundred in memory.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from ottla.errors import ProtocolError
from ottla.protocol import primitives
from ottla.protocol.plan import Plan, Present, plan, size_bytes_min
from ottla.protocol.primitives import Array, ByteString, Fixed, RecordData, Struct, Text, WireType
from ottla.protocol.source import Source, compile_function

ELEMENTS_MAX: Final = 1 << 20
"""In all arrays of one message together."""

HELPERS: Final[dict[str, object]] = {
    "ProtocolError": ProtocolError,
    "StructError": struct.error,
    "bad_marker": primitives.bad_marker,
    "bad_tag_size": primitives.bad_tag_size,
    "cut_short": primitives.cut_short,
    "new": object.__new__,
    "read_rest_of_uvarint": primitives.read_rest_of_uvarint,
    "read_uvarint": primitives.read_uvarint,
    "skip_tagged_fields": primitives.skip_tagged_fields,
    "too_many": primitives.too_many,
    "unexpected_null": primitives.unexpected_null,
    "unpack_from": struct.unpack_from,
}


def compile_decoder(cls: type, version: int, flexible: bool) -> Callable[..., Any]:
    """`decode(buffer, at=0) -> (message, end)` for this version."""
    writer = DecoderWriter(version, flexible)
    lines = writer.write(cls)
    return compile_function("decode", lines, HELPERS | writer.source.names)


class DecoderWriter:
    def __init__(self, version: int, flexible: bool) -> None:
        self.source = Source()
        self._version = version
        self._flexible = flexible
        self._run: list[tuple[str, str]] = []
        """Letters of the `struct` module and the variables that they fill, not yet read."""

    def write(self, cls: type) -> list[str]:
        source = self.source
        with source.block("def decode(buffer, at=0):"):
            with source.block("if type(buffer) is not memoryview:"):
                source.add("buffer = memoryview(buffer)")
            source.add("size = len(buffer)", f"elements = {ELEMENTS_MAX}")
            with source.block("try:"):
                self._struct("message", cls)
            with source.block("except (StructError, IndexError, UnicodeDecodeError) as error:"):
                source.add(f"raise ProtocolError('{cls.__name__} v{self._version}: %s' % error) from error")
            source.add("return message, at")
        return source.lines

    # Structs: read every field into a variable, then fill an object.

    def _struct(self, target: str, cls: type) -> None:
        fields = plan(cls, self._version)
        variables = {field.name: self.source.fresh(field.name) for field in (*fields.ordered, *fields.tagged)}
        for field in fields.ordered:
            self._value(variables[field.name], field.kind, field.nullable)
        if self._flexible:
            self._tags(fields, variables)
        self._flush()
        self.source.add(f"{target} = new({self.source.constant(cls)})")
        self.source.add(*(f"{target}.{name} = {variable}" for name, variable in variables.items()))
        self.source.add(*(f"{target}.{name} = {self.source.constant(default)}" for name, default in fields.absent))

    def _nullable_struct(self, target: str, cls: type) -> None:
        marker = self._read_with_run(target + "_marker", "b")
        with self.source.block(f"if {marker} == 1:"):
            self._struct(target, cls)
        with self.source.block(f"elif {marker} == -1:"):
            self.source.add(f"{target} = None")
        with self.source.block("else:"):
            self.source.add("bad_marker()")

    def _tags(self, fields: Plan, variables: dict[str, str]) -> None:
        count = self._read_with_run("tags", "B")
        for field in fields.tagged:
            self.source.add(f"{variables[field.name]} = {self.source.constant(field.default)}")
        with self.source.block(f"if {count}:"):
            if not fields.tagged:
                self.source.add("at = skip_tagged_fields(buffer, at - 1)")
                return
            self.source.add(f"{count}, at = read_uvarint(buffer, at - 1)")
            with self.source.block(f"for _ in range({count}):"):
                self._one_tag(fields.tagged, variables)

    def _one_tag(self, tagged: list[Present], variables: dict[str, str]) -> None:
        source = self.source
        tag, end = source.fresh("tag"), source.fresh("end")
        source.add(f"{tag}, at = read_uvarint(buffer, at)", f"{end}, at = read_uvarint(buffer, at)", f"{end} += at")
        with source.block(f"if {end} > size:"):
            source.add("cut_short()")
        for position, field in enumerate(tagged):
            with source.block(f"{'elif' if position else 'if'} {tag} == {field.tag}:"):
                self._value(variables[field.name], field.kind, field.nullable)
                self._flush()
        with source.block("else:"):
            source.add(f"at = {end}")
        with source.block(f"if at != {end}:"):
            source.add("bad_tag_size()")

    # Values.

    def _value(self, target: str, kind: WireType, nullable: bool) -> None:
        match kind:
            case Fixed():
                self._run.append((kind.letter, target))
            case Struct():
                (self._nullable_struct if nullable else self._struct)(target, kind.cls)
            case Array():
                self._array(target, kind.of, nullable)
            case Text():
                self._slice(target, "h", "buffer[at:end].tobytes().decode()", nullable)
            case ByteString():
                self._slice(target, "i", "buffer[at:end].tobytes()", nullable)
            case RecordData():
                self._slice(target, "i", "buffer[at:end]", nullable)

    def _slice(self, target: str, length_letter: str, value: str, nullable: bool) -> None:
        length = self._length(target, length_letter)
        with self.source.block(f"if {length} >= 0:"):
            self.source.add(f"end = at + {length}")
            with self.source.block("if end > size:"):
                self.source.add("cut_short()")
            self.source.add(f"{target} = {value}", "at = end")
        self._otherwise_null(target, length, nullable)

    def _array(self, target: str, of: WireType, nullable: bool) -> None:
        count = self._length(target, "i")
        element_bytes = size_bytes_min(of, self._version, self._flexible)
        with self.source.block(f"if {count} >= 0:"):
            with self.source.block(f"if {count} * {element_bytes} > size - at:"):
                self.source.add("cut_short()")
            self.source.add(f"elements -= {count}")
            with self.source.block("if elements < 0:"):
                self.source.add("too_many()")
            if isinstance(of, Fixed) and len(of.letter) == 1:
                self._numbers(target, count, of)
            else:
                self._elements(target, count, of)
        self._otherwise_null(target, count, nullable)

    def _numbers(self, target: str, count: str, of: Fixed) -> None:
        self.source.add(f"{target} = list(unpack_from('>%d{of.letter}' % {count}, buffer, at)) if {count} else []")
        self.source.add(f"at += {count} * {of.size_bytes}")

    def _elements(self, target: str, count: str, of: WireType) -> None:
        self.source.add(f"{target} = []")
        with self.source.block(f"for _ in range({count}):"):
            element = self.source.fresh("element")
            self._value(element, of, nullable=False)
            self._flush()
            self.source.add(f"{target}.append({element})")

    def _otherwise_null(self, target: str, length: str, nullable: bool) -> None:
        if nullable:
            with self.source.block(f"elif {length} == -1:"):
                self.source.add(f"{target} = None")
        with self.source.block("else:"):
            self.source.add("unexpected_null()")

    # Reading.

    def _length(self, stem: str, letter: str) -> str:
        """Read a length (-1: null) together with the run before it."""
        if not self._flexible:
            return self._read_with_run(stem + "_length", letter)
        length = self._read_with_run(stem + "_length", "B")
        with self.source.block(f"if {length} > 127:"):
            self.source.add(f"{length}, at = read_rest_of_uvarint(buffer, at, {length})")
        self.source.add(f"{length} -= 1")
        return length

    def _read_with_run(self, stem: str, letter: str) -> str:
        name = self.source.fresh(stem)
        self._run.append((letter, name))
        self._flush()
        return name

    def _flush(self) -> None:
        if not self._run:
            return
        letters = "".join(letter for letter, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        size_bytes = struct.calcsize(">" + letters)
        if letters == "B":
            self.source.add(f"{targets} = buffer[at]", "at += 1")
        else:
            unpack = self.source.named(
                "unpack_" + letters.replace("?", "bool"), struct.Struct(">" + letters).unpack_from
            )
            self.source.add(f"{targets}, = {unpack}(buffer, at)", f"at += {size_bytes}")
        self._run.clear()
