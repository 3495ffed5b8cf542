"""Messages for Hypothesis, from the same tables that the codecs are made of."""

from functools import cache
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ottla.protocol.plan import Present, plan
from ottla.protocol.primitives import Array, ByteString, Fixed, RecordData, Struct, Text, WireType
from ottla.protocol.schema import Message

LONG = 200
"""More than one byte of varint."""

TEXTS = st.one_of(st.text(max_size=6), st.just("ü" * LONG))
BYTES = st.one_of(st.binary(max_size=6), st.just(b"\xff" * LONG))
FIXED: dict[str, st.SearchStrategy[Any]] = {
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
    "H": st.integers(0, 2**16 - 1),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "?": st.booleans(),
    "16s": st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16)),
}


def examples(count: int) -> settings:
    """Few per test, since there are hundreds of tests: one for each message and version."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(max_examples=count, deadline=None, database=None, suppress_health_check=quiet)


@cache
def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Messages as `version` can carry them: fields of other versions keep their defaults."""
    fields = plan(cls, version)
    values = {field.name: _field(field, version) for field in (*fields.ordered, *fields.tagged)}
    return st.fixed_dictionaries(values).map(lambda given: cls(**given))


def _field(field: Present, version: int) -> st.SearchStrategy[Any]:
    values = _value(field.kind, version)
    if field.nullable:
        values = st.one_of(st.none(), values)
    if field.tag is not None:
        values = st.one_of(st.just(field.default), values)
    return values


def _value(kind: WireType, version: int) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed():
            return FIXED[kind.letter]
        case Text():
            return TEXTS
        case ByteString() | RecordData():
            return BYTES
        case Struct():
            return messages(kind.cls, version)
        case Array():
            return st.lists(_value(kind.of, version), max_size=3 if isinstance(kind.of, Fixed) else 2)
