"""The language in which `messages/` is written: one class per message, one line per field, all versions at once.

    @request(key=12, versions=(0, 4), flexible_from=4)
    class HeartbeatRequest(Request):
        group_id: str = ""
        group_instance_id: str | None = since(3, default=None)

An annotation is a field's type on the wire, the value is its default and, by `since`, `until`, `nullable_since` and
`tagged`, the versions that have it. Every field has a default, so that any subset can be given.

Messages are slotted and, to a type checker, frozen. That is not enforced at run time, and nothing is compiled when a
class is created: importing tables is part of a node's start-up, and `object.__setattr__` would cost a microsecond per
message.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar, dataclass_transform

from ottla.protocol.fields import NEVER, default_of, nullable_since, since, tagged, until
from ottla.protocol.source import compile_function

__all__ = [
    "NEVER", "Data", "Message", "Request", "Response", "Versioned",
    "data", "nullable_since", "request", "response", "since", "tagged", "until",
]  # fmt: skip


@dataclass_transform(kw_only_default=True, frozen_default=True)
class MessageType(type):
    """Takes the fields out of a class body, since a slot and a class attribute can't share a name."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "MessageType":
        if not bases:
            return super().__new__(mcs, name, bases, namespace)
        fields = {key: value for key, value in namespace.items() if not key.startswith("__")}
        for key in fields:
            del namespace[key]
        namespace["__slots__"] = tuple(fields)
        namespace["__fields__"] = fields
        return super().__new__(mcs, name, bases, namespace)


class Message(metaclass=MessageType):
    """A struct of the protocol. Its constructor is written and compiled when it is first called."""

    __slots__ = ()
    __fields__: ClassVar[dict[str, object]] = {}
    """What the class body says of each field, in the order of the wire: its `Field`, or its default."""

    def __init__(self, **values: object) -> None:
        cls = type(self)
        type.__setattr__(cls, "__init__", _constructor(cls))
        cls.__init__(self, **values)

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        return tuple(cls.__fields__)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(mine, getattr(other, name)) for name, mine in _values(self))

    def __hash__(self) -> int:
        raise TypeError(f"{type(self).__name__} may hold lists, so it has no hash")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in _values(self))})"


def _constructor(cls: type[Message]) -> Callable[..., None]:
    """`__init__` with one keyword per field and plain assignments."""
    names = cls.field_names()
    defaults = {f"_{name}": default_of(cls.__fields__[name], cls.__annotations__[name]) for name in names}
    parameters = ", ".join(["self", *(["*"] if names else []), *(f"{name}=_{name}" for name in names)])
    body = [f"    self.{name} = {name}" for name in names] or ["    pass"]
    return compile_function("__init__", [f"def __init__({parameters}):", *body], defaults)


def _values(message: Message) -> Iterator[tuple[str, object]]:
    return ((name, getattr(message, name)) for name in message.__fields__)


def _same(mine: object, other: object) -> bool:
    """Equal, where a list equals a tuple: decoding makes lists, callers give either."""
    if isinstance(mine, list | tuple) and isinstance(other, list | tuple):
        return len(mine) == len(other) and all(map(_same, mine, other))
    return mine == other


class Versioned(Message):
    """A message that stands by itself: it has a range of versions, some of them flexible."""

    api_key: ClassVar[int]
    versions: ClassVar[tuple[int, int]]
    """The first and the last that we know."""
    flexible_from: ClassVar[int]
    """The first version with compact lengths and tagged fields, or NEVER."""


class Request(Versioned):
    """What a client sends; `response` is the class of the answer to it."""

    response: ClassVar[type["Response"]]
    advertised_from: ClassVar[int]
    """The first version that ApiVersions speaks of: for Produce, lower than the first that is served."""


class Response(Versioned):
    """The answer to a request, in the request's version."""


class Data(Versioned):
    """What is kept in a log, or travels inside a byte string of another message."""


AnyRequest = TypeVar("AnyRequest", bound=Request)
AnyResponse = TypeVar("AnyResponse", bound=Response)
AnyData = TypeVar("AnyData", bound=Data)


def request(
    *, key: int, versions: tuple[int, int], flexible_from: int = NEVER, advertised_from: int | None = None
) -> Callable[[type[AnyRequest]], type[AnyRequest]]:
    def mark(cls: type[AnyRequest]) -> type[AnyRequest]:
        cls.api_key, cls.versions, cls.flexible_from = key, versions, flexible_from
        cls.advertised_from = versions[0] if advertised_from is None else advertised_from
        return cls

    return mark


def response(*, to: type[Request]) -> Callable[[type[AnyResponse]], type[AnyResponse]]:
    def mark(cls: type[AnyResponse]) -> type[AnyResponse]:
        cls.api_key, cls.versions, cls.flexible_from = to.api_key, to.versions, to.flexible_from
        to.response = cls
        return cls

    return mark


def data(
    *, versions: tuple[int, int], flexible_from: int = NEVER, key: int = -1
) -> Callable[[type[AnyData]], type[AnyData]]:
    """`key` tells the kinds of records in one log apart, where they have such a number."""

    def mark(cls: type[AnyData]) -> type[AnyData]:
        cls.api_key, cls.versions, cls.flexible_from = key, versions, flexible_from
        return cls

    return mark
