"""Python written by Python: the lines of a generated function, and the one place that compiles them.

Loops over a table at run time would cost more than the bytes themselves, so constructors and codecs are generated as
straight-line functions. What they are made of are names and types from the tables in `messages/`, never data.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


def compile_function(name: str, lines: Iterable[str], names: Mapping[str, object]) -> Callable[..., Any]:
    """The function `name` that `lines` define, with `names` as its globals."""
    namespace: dict[str, Any] = dict(names)
    exec("\n".join(lines), namespace)  # noqa: S102 - written from our own tables, see above
    function: Callable[..., Any] = namespace[name]
    return function


class Source:
    """Lines of a function under construction, and the constants they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, object] = {}
        self._depth = 0
        self._count = 0

    def add(self, *lines: str) -> None:
        indent = "    " * self._depth
        self.lines += [indent + line for line in lines]

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.add(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A name that no other line uses."""
        self._count += 1
        return f"{stem}_{self._count}"

    def constant(self, value: object) -> str:
        """An expression for `value`: a literal where it is short, else a name for it."""
        if value is None or isinstance(value, bool | int | str | float) or value in ((), b""):
            return repr(value)
        for name, known in self.names.items():
            if known is value:
                return name
        return self.named(self.fresh("constant"), value)

    def named(self, name: str, value: object) -> str:
        """`name`, which stands for `value`; of values that are given under one name the first serves them all."""
        self.names.setdefault(name, value)
        return name
