"""What followers that are behind may take, so that those in sync need not wait for them.

A follower has one connection for all partitions. What it is sent to catch up with some of them holds up the records of
the others, for which writers wait. So those in sync come first, what follows is bounded in each answer, and where the
operator says so in each second.
"""

from __future__ import annotations

ANSWER_BYTES_MAX = 1 << 20
"""In one answer: a few milliseconds of the follower's time."""
NO_LIMIT = 2**63 - 1


class CatchUpLimit:
    """Bytes per second of one leader, for all followers. May be overdrawn by an answer, which is then paid off."""

    __slots__ = ("_bytes_per_s", "_left", "_since_ms")

    def __init__(self, bytes_per_s: int = NO_LIMIT) -> None:
        self._bytes_per_s = bytes_per_s
        self._left = ANSWER_BYTES_MAX
        self._since_ms = 0

    def left(self, now_ms: int) -> int:
        """What the next answer may hold; nothing if this is not positive."""
        if self._bytes_per_s == NO_LIMIT:
            return ANSWER_BYTES_MAX
        earned = self._bytes_per_s * (now_ms - self._since_ms) // 1_000
        if earned > 0:
            self._since_ms = now_ms
            self._left = min(ANSWER_BYTES_MAX, self._left + earned)
        return self._left

    def sent(self, size_bytes: int) -> None:
        self._left -= size_bytes
