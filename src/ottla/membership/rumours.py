"""News on its way: passed on with every packet that goes out, a bounded number of times.

There is at most one rumour of each kind about a member, the latest. What was passed on least goes first, so that fresh
news overtakes old. Load figures only fill the room that is left, and never make a packet leave.
"""

from collections.abc import Iterable
from math import ceil, log10
from operator import attrgetter

RETRANSMIT_FACTOR = 4
ENTRY_BYTES_MIN = 19
"""The shortest entry (LEFT): with less room there is no point in looking."""


def retransmits(member_count: int) -> int:
    """How often a node passes a rumour on. Every member hears it with a probability that does not depend on their
    number if this grows with its logarithm."""
    return RETRANSMIT_FACTOR * ceil(log10(member_count + 1))


class Rumour:
    __slots__ = ("about", "entry", "sent")

    def __init__(self, about: int, entry: bytes) -> None:
        self.about = about
        self.entry = entry
        self.sent = 0


_sent = attrgetter("sent")


class Rumours:
    """What this node still has to pass on."""

    __slots__ = ("_idle", "_urgent")

    def __init__(self) -> None:
        self._urgent: dict[int, Rumour] = {}
        self._idle: dict[int, Rumour] = {}

    @property
    def is_urgent(self) -> bool:
        return bool(self._urgent)

    def spread(self, about: int, entry: bytes) -> None:
        self._urgent[about] = Rumour(about, entry)

    def spread_idly(self, about: int, entry: bytes) -> None:
        self._idle[about] = Rumour(about, entry)

    def forget(self, about: int) -> None:
        self._urgent.pop(about, None)
        self._idle.pop(about, None)

    def take(self, room_bytes: int, times_max: int) -> list[bytes]:
        """Entries that fit into `room_bytes` together. What was taken `times_max` times is done; load figures are after
        half as many, since the next ones make up for those that a member missed."""
        taken: list[bytes] = []
        if self._urgent:
            room_bytes = _take(self._urgent, room_bytes, times_max, taken)
        if self._idle:
            _take(self._idle, room_bytes, times_max // 2, taken)
        return taken


def _take(queue: dict[int, Rumour], room_bytes: int, times_max: int, taken: list[bytes]) -> int:
    for rumour in _least_sent_first(queue.values()):
        if room_bytes < ENTRY_BYTES_MIN:
            break
        if len(rumour.entry) <= room_bytes:
            room_bytes -= len(rumour.entry)
            taken.append(rumour.entry)
            rumour.sent += 1
            if rumour.sent >= times_max:
                del queue[rumour.about]
    return room_bytes


def _least_sent_first(rumours: Iterable[Rumour]) -> list[Rumour]:
    return sorted(rumours, key=_sent)
