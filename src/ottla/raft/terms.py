"""Which term each entry is of, without the entries: a few runs, however long the log is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ottla.errors import invariant
from ottla.raft.entry import EntryId


class Terms:
    """Terms only rise along a log, so it is a list of the places where they do."""

    __slots__ = ("_firsts", "_terms")

    def __init__(self, base: EntryId) -> None:
        self._firsts = [base.index]
        self._terms = [base.term]

    def at(self, index: int) -> int:
        """The term of an entry from the base on; the caller knows where the log ends."""
        place = bisect_right(self._firsts, index) - 1
        invariant(place >= 0, f"the term of {index} is asked for, before the base {self._firsts[0]}")
        return self._terms[place]

    def add(self, index: int, term: int) -> None:
        invariant(term >= self._terms[-1], f"entry {index} of term {term} after one of term {self._terms[-1]}")
        if term > self._terms[-1]:
            self._firsts.append(index)
            self._terms.append(term)

    def truncate(self, index: int) -> None:
        """Forget the terms from `index` on."""
        invariant(index > self._firsts[0], f"a cut at {index} reaches the base {self._firsts[0]}")
        keep = bisect_left(self._firsts, index)
        del self._firsts[keep:], self._terms[keep:]

    def forget_before(self, index: int) -> None:
        """`index` is the new base."""
        place = bisect_right(self._firsts, index) - 1
        invariant(place >= 0, f"the base moves back to {index}")
        del self._firsts[:place], self._terms[:place]
        self._firsts[0] = index

    def last_not_above(self, index: int, term: int) -> EntryId:
        """The last entry up to `index` whose term is at most `term`; the base if there is none.

        Where two logs disagree at `index`, and the other one is of `term` there, they can't agree anywhere between this
        entry and `index`: the terms here are higher, and the other's only fall on the way back.
        """
        place = bisect_right(self._firsts, index) - 1
        while place > 0 and self._terms[place] > term:
            index = self._firsts[place] - 1
            place -= 1
        if self._terms[place] > term:
            index = self._firsts[0]
        return EntryId(index, self._terms[place])
