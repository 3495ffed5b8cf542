"""A member of a consumer group on behalf of somebody who speaks HTTP.

    register ─▶ join ─▶ sync ─▶ reading ──heartbeat says: rebalance──▶ join …
                 └── a task, since it waits for the other members; whoever asks meanwhile is told "rebalancing"

The consumer id is the member's group.instance.id, so the membership outlives this object: any node can go on with it by
joining under the same id, which fences the one before and moves no partition. What is read and not committed is read
again then, as by a Kafka client that was restarted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.assignment import ASSIGNORS, Subscription
from ottla.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from ottla.http.cluster import Cluster
from ottla.http.ways import HELD
from ottla.protocol.codec import codec_for
from ottla.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ottla.protocol.messages.consumer_protocol import TopicPartition as Assigned
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.versioned import VERSION, encode_with_version
from ottla.types import TopicPartition

PROTOCOLS = ("range", "roundrobin")
"""Those that stop all members while partitions move: every Kafka client has one of them, and an HTTP client that polls
now and then could not give up single partitions in time anyway."""
SUBSCRIPTION_VERSION = 1
NO_GENERATION = -1
FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
"""The group went on without this member: it joins anew."""
REJOIN = (*FORGOTTEN, ErrorCode.REBALANCE_IN_PROGRESS)
TRIES_MAX = 5


class Member:
    def __init__(
        self, cluster: Cluster, group: str, consumer_id: str, topics: Sequence[str], *, session_timeout_ms: int
    ) -> None:
        self.group = group
        self.consumer_id = consumer_id
        self.topics = tuple(sorted(set(topics)))
        self.session_timeout_ms = session_timeout_ms
        self.member_id = ""
        self.generation = NO_GENERATION
        self.assignment: list[TopicPartition] = []
        self.positions: dict[TopicPartition, int] = {}
        """Where it reads on, of those partitions that it has read."""
        self.turn = 0
        """Which partition is polled first."""
        self.touched_s = time.monotonic()
        self.lock = asyncio.Lock()
        """One poll reads at a time."""
        self._cluster = cluster
        self._joining: asyncio.Task[None] | None = None
        self._last_generation = NO_GENERATION

    @property
    def is_joined(self) -> bool:
        return self.generation != NO_GENERATION

    @property
    def is_lost(self) -> bool:
        """Whether nobody has asked for it for so long that its group has forgotten it."""
        return time.monotonic() - self.touched_s > self.session_timeout_ms / 1000

    def told(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "consumer_id": self.consumer_id,
            "member_id": self.member_id,
            "generation": self.generation if self.is_joined else None,
            "rebalancing": not self.is_joined,
            "assignment": [{"topic": topic, "partition": index} for topic, index in self.assignment],
        }

    # Joining

    async def joined(self, wait_ms: int) -> bool:
        """Whether it is part of the group; waits for that."""
        self.touched_s = time.monotonic()
        if self.is_joined:
            return True
        if self._joining is None:
            self._joining = asyncio.create_task(self._join())
        joining = self._joining
        done, _ = await asyncio.wait({joining}, timeout=wait_ms / 1000)
        if not done:
            return False
        if self._joining is joining:
            self._joining = None
        joining.result()
        return self.is_joined

    async def _join(self) -> None:
        for left in reversed(range(TRIES_MAX)):
            try:
                answer = await self._ask_to_join()
                assignment = await self._sync(answer)
                break
            except BrokerError as error:
                if error.code not in REJOIN or not left:
                    raise
                if error.code in FORGOTTEN:
                    self.member_id = ""
        if answer.generation_id not in (self._last_generation, self._last_generation + 1):
            self.positions.clear()  # others may have had the partitions since
        self.positions = {at: offset for at, offset in self.positions.items() if at in assignment}
        self.assignment = assignment
        self.generation = self._last_generation = answer.generation_id

    async def _ask_to_join(self) -> JoinGroupResponse:
        subscription = encode_with_version(ConsumerProtocolSubscription(topics=self.topics), SUBSCRIPTION_VERSION)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.session_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.consumer_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription) for name in PROTOCOLS],
        )
        answer: JoinGroupResponse = await self._at_coordinator(
            request, self.session_timeout_ms + self._cluster.timeout_ms
        )
        self.member_id = answer.member_id
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> list[TopicPartition]:
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.consumer_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=await self._assign(joined) if leads else (),
        )
        answer = await self._at_coordinator(request, self.session_timeout_ms + self._cluster.timeout_ms)
        return sorted(read_assignment(answer.assignment))

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """As the leader of the group: who reads what, by the protocol that all members know."""
        members = {
            member.member_id: Subscription(
                topics=sorted(subscribed_topics(member.metadata) or ()), instance_id=member.group_instance_id
            )
            for member in joined.members
        }
        counts: dict[str, int] = {}
        for topic in {topic for member in members.values() for topic in member.topics}:
            await self._cluster.ways.refresh(topic)
            known = self._cluster.ways.partition_count(topic)
            if known is not None:
                counts[topic] = known
        given = ASSIGNORS[joined.protocol_name or PROTOCOLS[0]](members, counts)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=write_assignment(partitions))
            for member_id, partitions in given.items()
        ]

    # Staying

    async def heartbeat(self) -> None:
        """Tells the group that it is there, and hears whether partitions are given out anew."""
        self.touched_s = time.monotonic()
        if not self.is_joined:
            return
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.consumer_id,
        )
        try:
            await self._at_coordinator(request, self._cluster.timeout_ms)
        except BrokerError as error:
            if error.code not in REJOIN:
                raise
            self.rejoin(error.code)

    def rejoin(self, why: ErrorCode) -> None:
        """What it has read stays known meanwhile; when it has joined it is seen whether that still holds."""
        if why in FORGOTTEN:
            self.member_id = ""
        self.generation = NO_GENERATION
        if self._joining is None:
            self._joining = asyncio.create_task(self._join())

    async def leave(self) -> None:
        if self._joining is not None:
            self._joining.cancel()
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.consumer_id)
        request = LeaveGroupRequest(group_id=self.group, members=[identity])
        await self._at_coordinator(request, self._cluster.timeout_ms)

    async def _at_coordinator(self, request: Any, timeout_ms: int) -> Any:
        return await self._cluster.at_coordinator(self.group, request, _granted, timeout_ms=timeout_ms, channel=HELD)


def _granted(answer: Any) -> Any:
    """A LeaveGroup answer has a code for each member, too."""
    members = getattr(answer, "members", ())
    code = answer.error_code or max((getattr(told, "error_code", 0) for told in members), default=0)
    if code:
        raise BrokerError(ErrorCode(code))
    return answer


def read_assignment(assignment: bytes) -> list[TopicPartition]:
    if not assignment:
        return []
    decoded, _ = codec_for(ConsumerProtocolAssignment, 0).decode(assignment, VERSION.size)
    return [TopicPartition(each.topic, index) for each in decoded.assigned_partitions for index in each.partitions]


def write_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    assigned = [Assigned(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]
    return encode_with_version(ConsumerProtocolAssignment(assigned_partitions=assigned), SUBSCRIPTION_VERSION)
