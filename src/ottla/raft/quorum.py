"""The arithmetic of majorities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum


def majority(count: int) -> int:
    """How many of `count` are more than half of them."""
    return count // 2 + 1


def agreed(values: Iterable[int]) -> int:
    """The highest value that a majority has reached, given what each voter has reached; 0 without voters."""
    ordered = sorted(values)
    return ordered[len(ordered) - majority(len(ordered))] if ordered else 0


class Outcome(Enum):
    PENDING = "pending"
    WON = "won"
    LOST = "lost"


class Tally:
    """The votes of one election. Only the first vote of a voter counts, and only voters do."""

    __slots__ = ("_voters", "_votes")

    def __init__(self, voters: Sequence[int]) -> None:
        self._voters = voters
        self._votes: dict[int, bool] = {}

    def record(self, voter: int, granted: bool) -> Outcome:
        if voter in self._voters:
            self._votes.setdefault(voter, granted)
        return self._outcome()

    def _outcome(self) -> Outcome:
        needed = majority(len(self._voters))
        granted = sum(self._votes.values())
        refused = len(self._votes) - granted
        if granted >= needed:
            return Outcome.WON
        return Outcome.LOST if len(self._voters) - refused < needed else Outcome.PENDING
