"""Frozen values whose methods are compiled when they are first needed.

`@value` means what `@dataclass(frozen=True, slots=True, kw_only=True)` means, for fields with a plain default or none.
The standard one writes and compiles half a dozen functions per class when its module is imported, half a millisecond of
it; a node has a hundred such classes, and must answer within a quarter of a second of its start.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_FIELDS = "__value_fields__"
"""Where a class keeps its fields: name → default, or MISSING."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    own = {name: cls.__dict__.get(name, dataclasses.MISSING) for name in inspect.get_annotations(cls)}
    for name, default in own.items():
        if isinstance(default, dataclasses.Field):
            raise TypeError(f"{cls.__qualname__}.{name}: a value has plain defaults; use a dataclass")
    inherited = _inherited(cls)
    namespace = {name: item for name, item in cls.__dict__.items() if name not in own}
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace["__slots__"] = tuple(name for name in own if name not in inherited)
    namespace[_FIELDS] = inherited | own
    namespace["__dataclass_fields__"] = _DataclassFields()
    namespace["__dataclass_params__"] = _PARAMETERS
    for name, method in _METHODS.items():
        namespace.setdefault(name, method)
    kind: Any = type(cls)
    made: type[T] = kind(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _inherited(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        found |= base.__dict__.get(_FIELDS, {})
    return found


# Methods that replace themselves by compiled ones when they are first called.


def _init(self: Any, *args: Any, **values: Any) -> None:
    cls = _owner(type(self), "__init__", _init)
    fields: dict[str, Any] = getattr(cls, _FIELDS)
    known = {f"_set_{name}": _slot(cls, name).__set__ for name in fields}
    known |= {f"_{name}": default for name, default in fields.items()}
    parameters = [name if default is dataclasses.MISSING else f"{name}=_{name}" for name, default in fields.items()]
    lines = [f"def __init__({', '.join(['self', *(['*'] if fields else []), *parameters])}):"]
    lines += [f"    _set_{name}(self, {name})" for name in fields]
    lines += ["    self.__post_init__()"] if hasattr(cls, "__post_init__") else ["    pass"]
    _install(cls, lines, known)(self, *args, **values)


def _eq(self: Any, other: object) -> Any:
    cls = _owner(type(self), "__eq__", _eq)
    lines = [
        "def __eq__(self, other):",
        "    if other.__class__ is not self.__class__:",
        "        return NotImplemented",
        f"    return {_all(cls, 'self')} == {_all(cls, 'other')}",
    ]
    return _install(cls, lines, {})(self, other)


def _hash(self: Any) -> Any:
    cls = _owner(type(self), "__hash__", _hash)
    return _install(cls, ["def __hash__(self):", f"    return hash({_all(cls, 'self')})"], {})(self)


def _owner(cls: type, name: str, method: Callable[..., Any]) -> type:
    """The class that the method is to be compiled for: the object's own, or the one that it inherits it from."""
    return next(base for base in cls.__mro__ if base.__dict__.get(name) is method)


def _slot(cls: type, name: str) -> Any:
    return next(base.__dict__[name] for base in cls.__mro__ if name in base.__dict__)


def _all(cls: type, who: str) -> str:
    return f"({''.join(f'{who}.{name}, ' for name in getattr(cls, _FIELDS))})"


def _install(cls: type, lines: list[str], known: dict[str, Any]) -> Callable[..., Any]:
    made: dict[str, Callable[..., Any]] = {}
    exec("\n".join(lines), known, made)  # noqa: S102  # names of fields, nothing from outside
    [(name, function)] = made.items()
    function.__qualname__ = f"{cls.__qualname__}.{name}"
    setattr(cls, name, function)
    return function


# Methods that are the same for all.


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in getattr(self, _FIELDS))
    return f"{type(self).__qualname__}({shown})"


def _setattr(_self: object, name: str, _item: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, item in zip(getattr(self, _FIELDS), state, strict=True):
        object.__setattr__(self, name, item)


_METHODS: dict[str, Callable[..., Any]] = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Standard:
    """What all values are like."""


_PARAMETERS = vars(_Standard)["__dataclass_params__"]


class _DataclassFields:
    """Makes `dataclasses.replace`, `fields` and the like work, when somebody asks."""

    def __get__(self, _instance: object, owner: type) -> dict[str, Any]:
        fields = [(name, Any, dataclasses.field(default=default)) for name, default in getattr(owner, _FIELDS).items()]
        made: dict[str, Any] = vars(dataclasses.make_dataclass(owner.__name__, fields, kw_only=True))[
            "__dataclass_fields__"
        ]
        type.__setattr__(owner, "__dataclass_fields__", made)
        return made
