"""Who is in a group: its members, its static members by name, the vote for a protocol, and the leader.

Only bookkeeping: what a change of the roster leads to is decided in `classic`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from ottla.errors import BrokerError, ErrorCode, invariant
from ottla.groups.records import MemberMetadata
from ottla.groups.timers import Timer
from ottla.replicated import Token

Protocols = tuple[tuple[str, bytes], ...]
"""The assignors that a member can work with, the one it likes best first, each with what it tells about itself."""

NO_ASSIGNMENT = b""


class Member:
    """A member of a group: what is known of it, and which of its requests waits for an answer."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        session: Timer,
        assignment: bytes = NO_ASSIGNMENT,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.session = session
        self.is_new = False
        """It has not been told its id by a completed join yet, so it can't send heartbeats."""
        self.join_token: Token | None = None
        self.sync_token: Token | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """For an answer that only the group can give: a client that waits for it sends no heartbeats."""
        return self.join_token is not None or self.sync_token is not None

    def subscription(self, protocol: str | None) -> bytes:
        """What the member says about itself under `protocol`."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """The protocol that it likes best among those that all members know."""
        return next(name for name, _ in self.protocols if name in candidates)

    def record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.subscription(protocol),
            assignment=assignment,
        )


class Roster:
    """The members of one group, in the order in which they came."""

    __slots__ = ("_joined", "_members", "_static_ids", "_supporters", "leader_id")

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static_ids: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()
        """How many members know each protocol: what a join is checked against, without a look at every member."""
        self._joined = 0
        self.leader_id: str | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def static_member(self, instance_id: str | None) -> Member | None:
        """The member that has this name, which it keeps over its restarts."""
        member_id = None if instance_id is None else self._static_ids.get(instance_id)
        return None if member_id is None else self._members[member_id]

    def require(self, member_id: str, instance_id: str | None) -> Member:
        """The member, or the error that tells a client that it is not one."""
        if instance_id is not None:
            current_id = self._static_ids.get(instance_id)
            if current_id is not None and current_id != member_id:
                raise BrokerError(ErrorCode.FENCED_INSTANCE_ID)
            if current_id is None:
                raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self._members.get(member_id)
        if member is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # Coming and going

    def add(self, member: Member) -> None:
        invariant(member.member_id not in self._members, f"{member.member_id} is a member already")
        self._members[member.member_id] = member
        self._count_supporters(member.protocols, 1)
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: Member) -> None:
        del self._members[member.member_id]
        self._count_supporters(member.protocols, -1)
        if member.instance_id is not None:
            del self._static_ids[member.instance_id]
        if member.join_token is not None:
            self._joined -= 1
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._members), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member came back under a new id."""
        invariant(member.instance_id is not None, "only a static member keeps its place under a new id")
        del self._members[member.member_id]
        if self.leader_id == member.member_id:
            self.leader_id = new_id
        member.member_id = new_id
        self._members[new_id] = member
        self._static_ids[str(member.instance_id)] = new_id

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count_supporters(member.protocols, -1)
        member.protocols = protocols
        self._count_supporters(protocols, 1)

    def _count_supporters(self, protocols: Protocols, change: int) -> None:
        for name, _ in protocols:
            self._supporters[name] += change
            if not self._supporters[name]:
                del self._supporters[name]

    # Who has joined the rebalance that is under way

    def wait_for_join(self, member: Member, token: Token) -> Token | None:
        """Note that the member waits in a join. Returns the token of an earlier join that this one replaces."""
        replaced = member.join_token
        if replaced is None:
            self._joined += 1
        member.join_token = token
        return replaced

    def take_join_token(self, member: Member) -> Token | None:
        token = member.join_token
        if token is not None:
            member.join_token = None
            self._joined -= 1
        return token

    @property
    def joined(self) -> int:
        return self._joined

    @property
    def all_joined(self) -> bool:
        return self._joined == len(self._members)

    def not_joined(self) -> Sequence[Member]:
        return [member for member in self if member.join_token is None]

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is somebody who has joined; False if nobody has."""
        leader = self._members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.join_token is not None:
            return True
        for member in self:
            if member.join_token is not None:
                self.leader_id = member.member_id
                return True
        return False

    # What the members agree on

    def supports(self, protocol_names: Collection[str]) -> bool:
        """Whether one of the protocols is known to every member."""
        return any(self._supporters[name] == len(self._members) for name in protocol_names)

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all know; the first that was voted for, if several lead."""
        candidates = {name for name, count in self._supporters.items() if count == len(self._members)}
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]

    def rebalance_timeout_ms(self) -> int:
        """As long as the slowest member asks for."""
        return max((member.rebalance_timeout_ms for member in self), default=0)
