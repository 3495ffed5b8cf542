"""Room and upkeep are looked at soon after commits, and at once where that matters."""

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from ottla.runtime.after_commits import LOOK_MS, AfterCommits
from ottla.runtime.room import PLENTY_BYTES, Room
from ottla.storage.journal import Journal
from ottla.testing.disk import CrashingDisk


class Rig:
    """Counts looks, and has a timer that goes off when it is told to."""

    def __init__(self, *, has_plenty: bool = True) -> None:
        self.looks: list[str] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.journal = Journal(CrashingDisk(), Random(1), file_size_bytes=1 << 20)
        self._free_bytes = PLENTY_BYTES if has_plenty else PLENTY_BYTES - 1
        disk: Any = SimpleNamespace(free_bytes=self._look_at_room)
        self.room = Room(disk)
        self.room.look()
        self.looks.clear()
        stubs: dict[str, Any] = {
            "upkeep": SimpleNamespace(look=lambda: self.looks.append("upkeep")),
            "timers": SimpleNamespace(after_ms=lambda delay_ms, action: self.timers.append((delay_ms, action))),
        }
        self.after_commits = AfterCommits(room=self.room, journal=self.journal, **stubs)

    def _look_at_room(self) -> int:
        self.looks.append("room")
        return self._free_bytes

    def fire(self) -> None:
        (_, action), self.timers = self.timers[0], self.timers[1:]
        action()


def test_many_commits_are_followed_by_one_look_a_little_later() -> None:
    rig = Rig()
    for _ in range(5):
        rig.after_commits.committed()
    assert not rig.looks
    assert [delay_ms for delay_ms, _ in rig.timers] == [LOOK_MS]

    rig.fire()

    assert rig.looks == ["room", "upkeep"]
    assert not rig.timers


def test_what_is_committed_after_a_look_is_followed_by_another() -> None:
    rig = Rig()
    rig.after_commits.committed()
    rig.fire()
    rig.after_commits.committed()
    rig.fire()
    assert rig.looks == ["room", "upkeep"] * 2


def test_where_there_is_little_room_both_are_looked_at_after_every_commit() -> None:
    rig = Rig(has_plenty=False)
    rig.after_commits.committed()
    rig.after_commits.committed()
    assert rig.looks == ["room", "upkeep"] * 2


def test_a_journal_at_a_turn_is_seen_to_at_once() -> None:
    rig = Rig()
    rig.journal.is_at_a_turn = True
    rig.after_commits.committed()
    assert rig.looks == ["upkeep"]
