"""Waiting for something to become true, in place of sleeping and hoping."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], timeout_s: float = 20.0) -> T:
    """What `condition` returns as soon as that is true in Python's sense; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never became true"
        threading.Event().wait(0.01)
    return found
