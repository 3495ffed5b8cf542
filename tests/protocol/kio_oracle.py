"""kio as a second opinion: its schemas are generated from Kafka's own definitions, by people we don't know.

kio has one dataclass per version with the fields in the order of the wire, so that fields are matched by position: a
field that we have and kio does not, or the other way around, is an error here already. Some of kio's types hold less
than the wire can carry (known error codes, dates in the calendar), so a message is first made to fit.
"""

import datetime
import io
import uuid
from dataclasses import fields
from functools import cache
from typing import Any

from kio.index import UnknownEntity, load_entity_schema, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer
from kio.static.constants import EntityType

from ottla.protocol.plan import Present, plan
from ottla.protocol.primitives import Array, Struct
from ottla.protocol.schema import Message, Request, Response, Versioned

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LAST_DAY_MS = 250_000_000_000_000
KNOWN_ERRORS = {code.value for code in KioErrorCode}
NO_UUID = uuid.UUID(int=0)


@cache
def schema(cls: type[Versioned], version: int) -> Any:
    """kio's class, or None if it has none."""
    try:
        if issubclass(cls, Request):
            return load_request_schema(cls.api_key, version)
        if issubclass(cls, Response):
            return load_response_schema(cls.api_key, version)
        return load_entity_schema(_snake_case(cls.__name__), version, EntityType.data)
    except UnknownEntity:
        return None


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def encode(entity: Any) -> bytes:
    with io.BytesIO() as out:
        entity_writer(type(entity))(out, entity)
        return out.getvalue()


def matched_fields(cls: type[Message], version: int, kio_class: Any) -> list[tuple[Present, Any]]:
    """Our fields of this version and kio's, side by side."""
    wanted = plan(cls, version)
    by_name = {field.name: field for field in (*wanted.ordered, *wanted.tagged)}
    ours = [by_name[name] for name in cls.field_names() if name in by_name]
    theirs = fields(kio_class)
    pairs = list(zip(ours, theirs, strict=True))
    for mine, other in pairs:
        assert mine.name.removesuffix("_ms") == other.name.rstrip("_").removesuffix("_ms"), f"{cls.__name__}: {mine}"
        assert mine.tag == other.metadata.get("tag"), f"{cls.__name__}.{mine.name}"
    return pairs


def fit(message: Any, version: int, kio_class: Any) -> tuple[Any, Any]:
    """The message as kio can hold it, and kio's entity of it."""
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    for mine, other in matched_fields(type(message), version, kio_class):
        value = getattr(message, mine.name)
        ours[mine.name], theirs[other.name] = _fit_value(value, mine.kind, other.type, other, version)
    return type(message)(**ours), kio_class(**theirs)


def _fit_value(value: Any, kind: Any, kio_type: Any, field: Any, version: int) -> tuple[Any, Any]:
    optional = type(None) in getattr(kio_type, "__args__", ())
    if value is None and optional:
        return None, None
    inner: Any = next(a for a in kio_type.__args__ if a is not type(None)) if optional else kio_type
    if isinstance(kind, Array):
        elements = [_fit_value(v, kind.of, inner.__args__[0], field, version) for v in value or ()]
        return [mine for mine, _ in elements], tuple(other for _, other in elements)
    if isinstance(kind, Struct):
        return fit(value, version, inner)
    return _fit_scalar(value, field.metadata["kafka_type"], optional)


def _fit_scalar(value: Any, kafka_type: str, optional: bool) -> tuple[Any, Any]:
    match kafka_type:
        case "error_code":
            code = value if value in KNOWN_ERRORS else value % 100
            return code, KioErrorCode(code)
        case "timedelta_i32" | "timedelta_i64":
            milliseconds = value % LAST_DAY_MS if kafka_type.endswith("64") else value
            return milliseconds, datetime.timedelta(milliseconds=milliseconds)
        case "datetime_i64":
            if optional and value < 0:
                return -1, None
            milliseconds = value % LAST_DAY_MS
            return milliseconds, EPOCH + datetime.timedelta(milliseconds=milliseconds)
        case "uuid":
            return value, uuid.UUID(bytes=value) if any(value) else None
        case "records":
            return (b"", b"") if value is None else (value, value)
        case _:
            return value, value
