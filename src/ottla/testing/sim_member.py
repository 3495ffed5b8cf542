"""A member of a classic consumer group: joins, shares the partitions out if it leads, reads its own and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.messages.consumer_protocol import TopicPartition as AssignedTopic
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.versioned import decode_with_version, encode_with_version
from ottla.testing.history import Anomaly, Commit, Outcome, Ownership
from ottla.testing.sim_offsets import committed_offsets, find_coordinator
from ottla.testing.sim_reader import SimReader
from ottla.testing.sim_wire import Address, UnavailableError, pause
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.testing.sim_client import SimClient

JOIN_VERSION = 9
SYNC_VERSION = 5
HEARTBEAT_VERSION = 4
COMMIT_VERSION = 8
LEAVE_VERSION = 4
SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 6_000
JOIN_TIMEOUT_S = 15.0
HEARTBEAT_EVERY_S = 1.0
SURELY_REFUSED = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class _RejoinError(Exception):
    """The group has moved on without this member, or wants it to join again."""


class GroupMember:
    def __init__(self, client: SimClient, group: str, topic: str, partitions: int) -> None:
        self._client = client
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._member_id = ""
        self._generation = -1
        self._lives = 0

    async def run(self) -> None:
        while not self._client.is_stopping:
            try:
                coordinator = await find_coordinator(self._client.cluster, self._group)
                await self._take_part(coordinator)
            except _RejoinError:
                continue
            except UnavailableError:
                self._client.cluster.forget_leaders()
                await pause(self._client.dice, 0.3)

    async def _take_part(self, coordinator: Address) -> None:
        """One generation, from joining to the next rebalance."""
        owned = await self._sync(coordinator, await self._join(coordinator))
        self._lives += 1
        committed = await committed_offsets(self._client, coordinator, self._group, owned)
        reader = SimReader(self._client, f"{self._client.name}@{self._lives}", committed)
        beat_at = self._client.now() + HEARTBEAT_EVERY_S
        while not self._client.is_stopping:
            await reader.poll()
            if self._client.dice.random() < 0.5:
                await self._commit(coordinator, reader.positions)
            if self._client.now() >= beat_at:
                await self._heartbeat(coordinator)
                beat_at = self._client.now() + HEARTBEAT_EVERY_S
            await pause(self._client.dice, self._client.pace_s)
        await self._commit(coordinator, reader.positions)
        await self._leave(coordinator)

    async def _join(self, coordinator: Address) -> JoinGroupResponse:
        subscription = encode_with_version(ConsumerProtocolSubscription(topics=[self._topic]), 0)
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="roundrobin", metadata=subscription)],
        )
        answer: JoinGroupResponse = await self._client.cluster.ask(
            coordinator, request, JOIN_VERSION, timeout_s=JOIN_TIMEOUT_S
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            raise _RejoinError
        await self._accept(answer.error_code)
        self._member_id, self._generation = answer.member_id, answer.generation_id
        return answer

    async def _sync(self, coordinator: Address, joined: JoinGroupResponse) -> list[TopicPartition]:
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name="roundrobin",
            assignments=self._assignments(joined) if joined.leader == self._member_id else [],
        )
        began = self._client.now()
        answer = await self._client.cluster.ask(coordinator, request, SYNC_VERSION, timeout_s=JOIN_TIMEOUT_S)
        await self._accept(answer.error_code)
        assignment = decode_with_version(ConsumerProtocolAssignment, answer.assignment)
        owned = [
            TopicPartition(topic.topic, index) for topic in assignment.assigned_partitions for index in topic.partitions
        ]
        self._client.history.add(
            Ownership(
                client=self._client.name,
                began=began,
                ended=self._client.now(),
                outcome=Outcome.OK,
                group=self._group,
                member=self._member_id,
                generation=self._generation,
                partitions=tuple(owned),
            )
        )
        return owned

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Round robin, over members in the order of their ids."""
        members = sorted(member.member_id for member in joined.members)
        shares: dict[str, list[int]] = {member: [] for member in members}
        for index in range(self._partitions):
            shares[members[index % len(members)]].append(index)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=self._encoded(share))
            for member, share in shares.items()
        ]

    def _encoded(self, share: list[int]) -> bytes:
        topic = AssignedTopic(topic=self._topic, partitions=share)
        return encode_with_version(ConsumerProtocolAssignment(assigned_partitions=[topic]), 0)

    async def _heartbeat(self, coordinator: Address) -> None:
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        answer = await self._client.cluster.ask(coordinator, request, HEARTBEAT_VERSION)
        await self._accept(answer.error_code)

    async def _commit(self, coordinator: Address, positions: dict[TopicPartition, int]) -> None:
        if not positions:
            return
        now = self._client.now()
        commits = {
            partition.partition: self._client.history.add(
                Commit(
                    client=self._client.name,
                    began=now,
                    group=self._group,
                    partition=partition,
                    offset=offset,
                    coordinator=coordinator[0],
                )
            )
            for partition, offset in positions.items()
        }
        answer = await self._client.cluster.ask(coordinator, self._commit_request(positions), COMMIT_VERSION)
        code = ErrorCode.NONE
        for partition in answer.topics[0].partitions:
            code = partition.error_code
            if code == ErrorCode.NONE:
                commits[partition.partition_index].end(Outcome.OK, self._client.now())
            elif code in SURELY_REFUSED:
                commits[partition.partition_index].end(Outcome.FAILED, self._client.now())
        await self._accept(code)

    def _commit_request(self, positions: dict[TopicPartition, int]) -> OffsetCommitRequest:
        partitions = [
            OffsetCommitRequestPartition(partition_index=partition.partition, committed_offset=offset)
            for partition, offset in positions.items()
        ]
        return OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=partitions)],
        )

    async def _leave(self, coordinator: Address) -> None:
        request = LeaveGroupRequest(group_id=self._group, members=[MemberIdentity(member_id=self._member_id)])
        await self._client.cluster.ask(coordinator, request, LEAVE_VERSION)

    async def _accept(self, code: int) -> None:
        """Go on, join again, or look for the coordinator again."""
        if code == ErrorCode.NONE:
            return
        if code == ErrorCode.UNKNOWN_SERVER_ERROR:
            what = f"{self._group} was answered with UNKNOWN_SERVER_ERROR"
            self._client.history.add(Anomaly(client=self._client.name, began=self._client.now(), what=what))
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        await pause(self._client.dice, 0.1)
        if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
            raise _RejoinError
        raise UnavailableError(ErrorCode(code).name)
