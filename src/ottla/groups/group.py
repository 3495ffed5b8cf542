"""What a group is between two requests: its state, generation and members, and how these get into the log and back.

How it changes is in `classic`; this is the half that would be the same for any other way of running a rebalance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from ottla.errors import BrokerError, ErrorCode, invariant
from ottla.groups.effects import Effects
from ottla.groups.environment import Environment
from ottla.groups.records import GroupMetadata, MemberMetadata
from ottla.groups.roster import NO_ASSIGNMENT, Member, Protocols, Roster
from ottla.groups.states import TRANSITIONS, GroupState
from ottla.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from ottla.groups.timers import Timer
from ottla.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group import SyncGroupResponse

GENERATION_MAX = 2**31 - 1


class Group(ABC):
    __slots__ = (
        "env",
        "generation",
        "group_id",
        "is_logged",
        "protocol",
        "protocol_type",
        "roster",
        "state",
        "state_timestamp_ms",
    )

    def __init__(self, group_id: str, env: Environment) -> None:
        self.group_id = group_id
        self.env = env
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = -1
        """When it became Stable or Empty; -1 if that is not known."""
        self.generation = 0
        self.protocol_type: str | None = None
        """None as long as the group has only committed offsets: a "simple" group."""
        self.protocol: str | None = None
        self.roster = Roster()
        self.is_logged = False
        """Whether the log holds a record of it."""

    @abstractmethod
    def session_is_over(self, member: Member, now_ms: int, effects: Effects) -> None:
        """A member was not heard of for as long as it said it might be silent."""

    def move_to(self, state: GroupState) -> None:
        invariant(state in TRANSITIONS[self.state], f"group {self.group_id} can't go from {self.state} to {state}")
        self.state = state

    def next_generation(self) -> int:
        """Negative numbers mean "no generation" to clients, so it starts again from 1 after the last."""
        return self.generation + 1 if self.generation < GENERATION_MAX else 1

    def require_current(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        """The member, if it belongs to the current generation; the error that makes it join again, if not."""
        member = self.roster.require(member_id, instance_id)
        if generation != self.generation:
            raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
        return member

    # Members

    def new_member(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
    ) -> Member:
        member = Member(
            member_id=member_id,
            instance_id=instance_id,
            client_id=client_id,
            client_host=client_host,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=session_timeout_ms,
            protocols=protocols,
            session=Timer(lambda now_ms, effects: self.session_is_over(member, now_ms, effects)),
        )
        self.roster.add(member)
        return member

    def discharge(self, member: Member) -> None:
        self.env.timers.discard(member.session)
        self.roster.remove(member)

    def restart_session(self, member: Member, now_ms: int) -> None:
        self.env.timers.set(member.session, now_ms + member.session_timeout_ms)

    # Records

    def stable_record(self, assignments: Mapping[str, bytes], state_timestamp_ms: int) -> GroupMetadata:
        return GroupMetadata(
            group_id=self.group_id,
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader_id=self.roster.leader_id,
            state_timestamp_ms=state_timestamp_ms,
            members=tuple(
                member.record(self.protocol, assignments.get(member.member_id, NO_ASSIGNMENT)) for member in self.roster
            ),
        )

    def empty_record(self, now_ms: int) -> GroupMetadata:
        return GroupMetadata(
            group_id=self.group_id,
            protocol_type=self.protocol_type,
            generation=self.next_generation(),
            protocol=None,
            leader_id=None,
            state_timestamp_ms=now_ms,
            members=(),
        )

    def adopt(self, record: GroupMetadata) -> bool:
        """Become what the record says. True if that brought members whose sessions have yet to start."""
        self.is_logged = True
        self.protocol_type = record.protocol_type
        self.protocol = record.protocol
        self.generation = record.generation
        self.state = GroupState.STABLE if record.members else GroupState.EMPTY
        self.state_timestamp_ms = record.state_timestamp_ms
        self._forget_all_but(record.members)
        restored = [self._restore(member) for member in record.members if member.member_id not in self.roster]
        for logged in record.members:
            self._take_over(logged, self.roster.require(logged.member_id, logged.instance_id))
        self.roster.leader_id = record.leader_id
        return bool(restored)

    def _take_over(self, logged: MemberMetadata, member: Member) -> None:
        """In a live group only the assignment is new. In a log that is read again the rest may be, too."""
        member.assignment = logged.assignment
        if member.subscription(self.protocol) != logged.subscription:
            self.roster.set_protocols(member, self._logged_protocols(logged))
        member.client_id, member.client_host = logged.client_id, logged.client_host
        member.session_timeout_ms = logged.session_timeout_ms
        member.rebalance_timeout_ms = logged.rebalance_timeout_ms

    def _logged_protocols(self, logged: MemberMetadata) -> Protocols:
        """The log holds of each member only what it said under the protocol that was chosen."""
        return ((self.protocol or "", logged.subscription),)

    def _forget_all_but(self, logged: Iterable[MemberMetadata]) -> None:
        """Only a log that is read again holds members that a later record no longer has: nobody waits in it."""
        ids = {member.member_id for member in logged}
        for member in [member for member in self.roster if member.member_id not in ids]:
            self.discharge(member)

    def _restore(self, logged: MemberMetadata) -> Member:
        return self.new_member(
            member_id=logged.member_id,
            instance_id=logged.instance_id,
            client_id=logged.client_id,
            client_host=logged.client_host,
            rebalance_timeout_ms=logged.rebalance_timeout_ms,
            session_timeout_ms=logged.session_timeout_ms,
            protocols=self._logged_protocols(logged),
        )

    # What members are told

    def joined(
        self, member: Member, *, skip_assignment: bool = False, leader_id: str | None = None
    ) -> JoinGroupResponse:
        """What a member is told of the current generation.

        Only its leader is told of the others, where it needs that: to give everybody work, or to watch all topics.
        """
        leads = member.member_id == (leader_id or self.roster.leader_id)
        tells_all = leads and (skip_assignment or self.state is GroupState.COMPLETING_REBALANCE)
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=leader_id or self.roster.leader_id or "",
            skip_assignment=skip_assignment,
            member_id=member.member_id,
            members=self._told_to_leader() if tells_all else (),
        )

    def _told_to_leader(self) -> Sequence[JoinGroupResponseMember]:
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.subscription(self.protocol),
            )
            for member in self.roster
        ]

    def assigned(self, assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=assignment)

    # What it reads

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def topics(self) -> frozenset[str] | None:
        """The topics that its members subscribe to; None if that can't be told."""
        if not self.is_consumer_group or (len(self.roster) and self.protocol is None):
            return None
        topics: set[str] = set()
        for member in self.roster:
            wanted = subscribed_topics(member.subscription(self.protocol))
            if wanted is None:
                return None
            topics |= wanted
        return frozenset(topics)
