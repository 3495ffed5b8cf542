"""Writes the function that encodes one version of a message.

The counterpart of `decoder`: straight-line code over the whole tree of structs. Fields of fixed size that follow each
other are packed together; what is packed and what is passed by reference (strings, record batches) are pieces, and the
pieces between two branches go into `out` at once. Record data is never joined here: the socket takes pieces as well.
"""

import struct
from collections.abc import Callable
from typing import Final

from ottla.protocol import primitives
from ottla.protocol.plan import Present, plan
from ottla.protocol.primitives import Array, ByteString, Fixed, RecordData, Struct, Text, WireType
from ottla.protocol.source import Source, compile_function

HELPERS: Final[dict[str, object]] = {
    "ONE_BYTE_UVARINTS": primitives.ONE_BYTE_UVARINTS,
    "pack": struct.pack,
    "uvarint": primitives.uvarint,
}


def compile_encoder(cls: type, version: int, flexible: bool) -> Callable[..., None]:
    """`encode(message, out)` for this version."""
    writer = EncoderWriter(version, flexible)
    lines = writer.write(cls)
    return compile_function("encode", lines, HELPERS | writer.source.names)


class EncoderWriter:
    def __init__(self, version: int, flexible: bool) -> None:
        self.source = Source()
        self._version = version
        self._flexible = flexible
        self._run: list[tuple[str, str]] = []
        """Letters of the `struct` module and the expressions to pack by them, not yet packed."""
        self._pieces: list[str] = []
        """Expressions for bytes, not yet added to `out`."""

    def write(self, cls: type) -> list[str]:
        with self.source.block("def encode(message, out):"):
            self._struct("message", cls)
            self._flush()
            self.source.add("return")
        return self.source.lines

    # Structs.

    def _struct(self, variable: str, cls: type) -> None:
        fields = plan(cls, self._version)
        for field in fields.ordered:
            self._value(f"{variable}.{field.name}", field.kind, field.nullable)
        if not self._flexible:
            return
        if fields.tagged:
            self._tags(variable, fields.tagged)
        elif self._run:
            self._run.append(("x", ""))
        else:
            self._pieces.append(r"b'\0'")

    def _nullable_struct(self, value: str, cls: type) -> None:
        variable = self._bind(value)
        self._flush()
        with self.source.block(f"if {variable} is None:"):
            self.source.add(r"out.append(b'\xff')")
        with self.source.block("else:"):
            self._pieces.append(r"b'\1'")
            self._struct(variable, cls)
            self._flush()

    def _tags(self, variable: str, tagged: list[Present]) -> None:
        self._flush()
        source, tags, count = self.source, self.source.fresh("tags"), self.source.fresh("count")
        source.add(f"{tags} = ()", f"{count} = 0")
        for field in tagged:
            value = source.fresh(field.name)
            source.add(f"{value} = {variable}.{field.name}")
            with source.block(f"if {self._differs(value, field)}:"):
                self._one_tag(value, field, tags)
                source.add(f"{count} += 1")
        source.add(f"out.append(ONE_BYTE_UVARINTS[{count}])")
        with source.block(f"if {count}:"):
            source.add(f"out += {tags}")

    def _one_tag(self, value: str, field: Present, tags: str) -> None:
        """The size of a tagged field comes before it, so it is written into a list of its own."""
        source, outer, content = self.source, self.source.fresh("outer"), self.source.fresh("content")
        source.add(f"{outer} = out", "out = []")
        self._value(value, field.kind, field.nullable)
        self._flush()
        source.add(f"{content} = b''.join(out)", f"out = {outer}")
        source.add(f"{tags} += (uvarint({field.tag}), uvarint(len({content})), {content})")

    def _differs(self, value: str, field: Present) -> str:
        default = self.source.constant(field.default)
        if field.default is None:
            return f"{value} is not None"
        if isinstance(field.kind, Array):
            return f"{value} is None or len({value})" if field.nullable else f"len({value})"
        if isinstance(field.kind, Struct):
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"

    # Values.

    def _value(self, value: str, kind: WireType, nullable: bool) -> None:
        match kind:
            case Fixed():
                self._run.append((kind.letter, value))
            case Struct():
                if nullable:
                    self._nullable_struct(value, kind.cls)
                else:
                    self._struct(self._bind(value), kind.cls)
            case Array():
                self._array(value, kind.of, nullable)
            case Text():
                self._byte_string(value, "h", ".encode()", nullable)
            case ByteString():
                self._byte_string(value, "i", "", nullable)
            case RecordData():
                self._records(value, nullable)

    def _byte_string(self, value: str, letter: str, conversion: str, nullable: bool) -> None:
        if not nullable:
            variable = self._bind(value + conversion)
            self._length(f"len({variable})", letter)
        else:
            variable, length = self._bind(value), self.source.fresh("length")
            with self.source.block(f"if {variable} is None:"):
                self.source.add(f"{variable} = b''", f"{length} = -1")
            with self.source.block("else:"):
                self.source.add(*([f"{variable} = {variable}{conversion}"] if conversion else []))
                self.source.add(f"{length} = len({variable})")
            self._length(length, letter)
        self._pack_run()
        self._pieces.append(variable)

    def _records(self, value: str, nullable: bool) -> None:
        variable, length = self._bind(value), self.source.fresh("length")
        with self.source.block(f"if {variable} is None:"):
            self.source.add(f"{variable} = ()", f"{length} = {-1 if nullable else 0}")
        with self.source.block(f"elif type({variable}) is list or type({variable}) is tuple:"):
            self.source.add(f"{length} = sum(map(len, {variable}))")
        with self.source.block("else:"):
            self.source.add(f"{length} = len({variable})", f"{variable} = ({variable},)")
        self._length(length, "i")
        self._flush()
        self.source.add(f"out += {variable}")

    def _array(self, value: str, of: WireType, nullable: bool) -> None:
        variable, count = self._bind(value), self.source.fresh("count")
        if nullable:
            self.source.add(f"{count} = -1 if {variable} is None else len({variable})")
        else:
            self.source.add(f"{count} = len({variable})")
        self._length(count, "i")
        if isinstance(of, Fixed) and len(of.letter) == 1:
            self._flush()
            with self.source.block(f"if {count} > 0:"):
                self.source.add(f"out.append(pack('>%d{of.letter}' % {count}, *{variable}))")
            return
        self._flush()
        element = self.source.fresh("element")
        with self.source.block(f"for {element} in {variable}{' or ()' if nullable else ''}:"):
            self._value(element, of, nullable=False)
            self._flush()

    # Writing.

    def _bind(self, value: str) -> str:
        """A variable that holds `value`, so that it is read once."""
        if value.isidentifier():
            return value
        variable = self.source.fresh("value")
        self.source.add(f"{variable} = {value}")
        return variable

    def _length(self, length: str, letter: str) -> None:
        if not self._flexible:
            self._run.append((letter, length))
            return
        self._pack_run()
        variable = self.source.fresh("compact")
        self.source.add(f"{variable} = {length} + 1")
        self._pieces.append(f"ONE_BYTE_UVARINTS[{variable}] if {variable} < 128 else uvarint({variable})")

    def _pack_run(self) -> None:
        if not self._run:
            return
        letters = "".join(letter for letter, _ in self._run)
        values = ", ".join(value for _, value in self._run if value)
        pack = self.source.named(f"pack_{letters}".replace("?", "bool"), struct.Struct(">" + letters).pack)
        self._pieces.append(f"{pack}({values})")
        self._run.clear()

    def _flush(self) -> None:
        self._pack_run()
        if len(self._pieces) == 1:
            self.source.add(f"out.append({self._pieces[0]})")
        elif self._pieces:
            self.source.add(f"out += ({', '.join(self._pieces)})")
        self._pieces.clear()
