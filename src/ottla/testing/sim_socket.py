"""What `get_extra_info("socket")` shows of a simulated connection: an address, and options that do nothing."""

from __future__ import annotations

from typing import Any


class SimSocket:
    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._options: dict[tuple[int, int], Any] = {}

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        self._options[level, option] = value

    def getsockopt(self, level: int, option: int, size_bytes: int = 0) -> Any:
        return self._options.get((level, option), bytes(size_bytes) if size_bytes else 0)
