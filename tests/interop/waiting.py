"""Waiting for something that another process does."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, within_s: float = 20, what: str = "condition") -> T:
    """The first true value of `condition`, asked again until it holds."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not hold within {within_s} s"
        time.sleep(0.01)
    return value
