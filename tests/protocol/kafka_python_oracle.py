"""kafka-python as a third opinion: another codec, by other people, for the APIs and versions that it has."""

import importlib
import pkgutil
import uuid
from typing import Any

import kafka.protocol
from kafka.protocol.api_message import ApiMessage

from ottla.protocol.plan import plan
from ottla.protocol.primitives import Array, Fixed, Struct, WireType
from ottla.protocol.schema import Message, Versioned

UUID_LETTER = "16s"


def _message_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate_stubs" not in module.name:
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, type) and issubclass(value, ApiMessage) and value is not ApiMessage:
                    found[name] = value
    return found


CLASSES = _message_classes()


def has(cls: type[Versioned], version: int) -> bool:
    known = CLASSES.get(cls.__name__)
    return known is not None and version <= known.max_version


def build(message: Versioned, version: int) -> Any:
    return _build(CLASSES[type(message).__name__], message, version)


def _build(kafka_class: Any, message: Message, version: int) -> Any:
    """A tagged field with its default is left out: kafka-python would write a struct even so."""
    fields = plan(type(message), version)
    values: dict[str, Any] = {}
    for field in (*fields.ordered, *fields.tagged):
        value = getattr(message, field.name)
        if field.tag is None or value != field.default:
            name = _their_name(kafka_class, field.name)
            values[name] = _value(kafka_class.fields[name], value, field.kind, version)
    return kafka_class(version=version, **values)


def _their_name(kafka_class: Any, name: str) -> str:
    """`cluster_authorized_operations` and `topic_authorized_operations` have lost their first word there."""
    return name if name in kafka_class.fields else name.split("_", 1)[1]


def _value(field: Any, value: Any, kind: WireType, version: int) -> Any:
    match kind:
        case _ if value is None:
            return None
        case Array(of=Struct()):
            return [_build(field.data_class, element, version) for element in value]
        case Array(of=of):
            return [_value(None, element, of, version) for element in value]
        case Struct():
            return _build(field.data_class, value, version)
        case Fixed(letter=letter) if letter == UUID_LETTER:
            return uuid.UUID(bytes=value)
        case Fixed() if field is not None and field.type_str == "bitfield":
            return {bit for bit in range(32) if value >> bit & 1}
        case _:
            return value
