"""Who votes: the set of voters, how it changes, and its bytes in the log.

A voter is a node and the directory that it keeps its log in. A node that comes back with an empty directory has
forgotten whom it voted for and what it acknowledged, so it is not the voter that it was, whatever its id: `admits`
tells the two apart.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.errors import BrokerError, ErrorCode, ProtocolError, invariant

DIRECTORY_ID_BYTES = 16
UNKNOWN_DIRECTORY = bytes(DIRECTORY_ID_BYTES)
"""Of voters that were named before they were met, as those of a new cluster are. It is filled in by `with_voter`."""

_FORMAT = 1
_HEAD = struct.Struct(">BH")
_VOTER = struct.Struct(f">i{DIRECTORY_ID_BYTES}s")


class Voter(NamedTuple):
    node_id: int
    directory_id: bytes = UNKNOWN_DIRECTORY


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Voters in the order of their ids. A node that knows of none waits to be told: it never campaigns."""

    voters: tuple[Voter, ...] = ()

    @classmethod
    def of(cls, node_ids: Iterable[int]) -> VoterSet:
        return cls(tuple(Voter(node_id) for node_id in sorted(set(node_ids))))

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.node_id for voter in self.voters)

    def __contains__(self, node_id: object) -> bool:
        return any(voter.node_id == node_id for voter in self.voters)

    def __len__(self) -> int:
        return len(self.voters)

    def find(self, node_id: int) -> Voter | None:
        return next((voter for voter in self.voters if voter.node_id == node_id), None)

    def admits(self, node_id: int, directory_id: bytes) -> bool:
        """Whether a message of this node may be believed: not if it is a voter that has lost its directory."""
        voter = self.find(node_id)
        return voter is None or voter.directory_id in (UNKNOWN_DIRECTORY, directory_id)

    def with_voter(self, added: Voter) -> VoterSet:
        """One more voter, or the directory of one that was known by its id alone."""
        present = self.find(added.node_id)
        if present is not None and (present.directory_id != UNKNOWN_DIRECTORY or present == added):
            raise BrokerError(ErrorCode.DUPLICATE_VOTER, f"node {added.node_id} is a voter already")
        others = [voter for voter in self.voters if voter.node_id != added.node_id]
        return VoterSet(tuple(sorted([*others, added])))

    def without_voter(self, node_id: int) -> VoterSet:
        if node_id not in self:
            raise BrokerError(ErrorCode.VOTER_NOT_FOUND, f"node {node_id} is not a voter")
        if len(self) == 1:
            raise BrokerError(ErrorCode.INVALID_REQUEST, "the last voter can't be removed")
        return VoterSet(tuple(voter for voter in self.voters if voter.node_id != node_id))

    def encode(self) -> bytes:
        return _HEAD.pack(_FORMAT, len(self.voters)) + b"".join(_VOTER.pack(*voter) for voter in self.voters)

    @classmethod
    def decode(cls, data: bytes) -> VoterSet:
        if len(data) < _HEAD.size:
            raise ProtocolError("a voter set is cut short")
        form, count = _HEAD.unpack_from(data)
        if form != _FORMAT or len(data) != _HEAD.size + count * _VOTER.size:
            raise ProtocolError(f"a voter set of format {form} with {count} voters in {len(data)} bytes")
        return cls(tuple(Voter(*fields) for fields in _VOTER.iter_unpack(data[_HEAD.size :])))


NO_VOTERS = VoterSet()


class VoterHistory:
    """The voter set at each place of the log, since a follower may have to take a change back.

    A set is in force as soon as its entry is in the log, committed or not (Raft dissertation, 4.1).
    """

    __slots__ = ("_indexes", "_sets")

    def __init__(self, index: int, voters: VoterSet) -> None:
        self._indexes = [index]
        self._sets = [voters]

    @property
    def newest(self) -> VoterSet:
        return self._sets[-1]

    @property
    def newest_index(self) -> int:
        """Where the newest set stands in the log: before this is committed, there is no further change."""
        return self._indexes[-1]

    def at(self, index: int) -> VoterSet:
        return self._sets[self._place(index)]

    def since(self, index: int) -> Sequence[VoterSet]:
        """The set in force at `index`, and those that came after it."""
        return self._sets[self._place(index) :]

    def _place(self, index: int) -> int:
        place = bisect_right(self._indexes, index) - 1
        invariant(place >= 0, f"the voters at {index} are forgotten: the history begins at {self._indexes[0]}")
        return place

    def add(self, index: int, voters: VoterSet) -> None:
        invariant(index > self._indexes[-1], f"voters at {index} after those at {self._indexes[-1]}")
        self._indexes.append(index)
        self._sets.append(voters)

    def truncate(self, index: int) -> None:
        """Take back what stands at `index` or after it."""
        while self._indexes[-1] >= index:
            invariant(len(self._indexes) > 1, f"the first voter set is at {self._indexes[-1]}: it can't be taken back")
            self._indexes.pop()
            self._sets.pop()

    def forget_before(self, index: int) -> None:
        """Keep what is needed to answer for `index` and later."""
        place = bisect_right(self._indexes, index) - 1
        if place > 0:
            del self._indexes[:place], self._sets[:place]
