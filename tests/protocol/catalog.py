"""Every message that has a table, in every version: what the tests in this directory go through."""

import importlib
import pkgutil
from collections.abc import Iterator

from ottla.protocol import messages
from ottla.protocol.schema import Data, Request, Response, Versioned

MODULES = [
    importlib.import_module(f"{messages.__name__}.{found.name}") for found in pkgutil.iter_modules(messages.__path__)
]


def _classes() -> Iterator[type[Versioned]]:
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Versioned) and value.__module__ == module.__name__:
                yield value


def versions(cls: type[Versioned]) -> range:
    return range(cls.versions[0], cls.versions[1] + 1)


REQUESTS = [cls for cls in _classes() if issubclass(cls, Request)]
RESPONSES = [cls for cls in _classes() if issubclass(cls, Response)]
DATA = [cls for cls in _classes() if issubclass(cls, Data)]
EVERYTHING = [(cls, version) for cls in _classes() for version in versions(cls)]


def name_of(value: object) -> str | None:
    """How a parameter is named in a test's id."""
    return value.__name__ if isinstance(value, type) else None
