"""Consumer groups over HTTP: members that read, and the groups as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.subscription import subscribed_topics
from ottla.http.cluster import Cluster, Deadline
from ottla.http.consume import EARLIEST, LATEST, Consuming
from ottla.http.errors import CONFLICT, NOT_FOUND, TOO_MANY, HttpError, require
from ottla.http.members import NO_GENERATION, REJOIN, Member, read_assignment
from ottla.http.messages import Encoding, Received
from ottla.ports import Clock
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.types import TopicPartition

MEMBERS_MAX = 10_000
HEARTBEAT_SHARE = 3
"""While a poll waits, a third of the session's time passes at most between two heartbeats."""
LAGS_AT_ONCE = 20
DEAD = "Dead"
NOBODY = ""


class Groups:
    def __init__(self, cluster: Cluster, consuming: Consuming, clock: Clock) -> None:
        self._cluster = cluster
        self._consuming = consuming
        self._clock = clock
        self.members: dict[tuple[str, str], Member] = {}

    # Members

    async def register(
        self, group: str, consumer_id: str, topics: Sequence[str], session_timeout_ms: int
    ) -> dict[str, Any]:
        for topic in topics:
            await self._cluster.ways.refresh(topic)
            if self._cluster.ways.partition_count(topic) is None:
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")
        known = self.members.get((group, consumer_id))
        if known is None or known.topics != tuple(sorted(set(topics))):
            known = self._add(Member(self._cluster, group, consumer_id, topics, session_timeout_ms=session_timeout_ms))
        await self._joined(known, self._cluster.timeout_ms)
        return known.told()

    def _add(self, member: Member) -> Member:
        if len(self.members) >= MEMBERS_MAX:
            self.members = {key: each for key, each in self.members.items() if not each.is_lost}
        if len(self.members) >= MEMBERS_MAX:
            raise HttpError(TOO_MANY, "too_many_consumers", f"{MEMBERS_MAX} consumers are registered here already.")
        self.members[member.group, member.consumer_id] = member
        return member

    async def _joined(self, member: Member, wait_ms: int) -> bool:
        try:
            return await member.joined(wait_ms)
        except BrokerError:
            self._forget(member)
            raise

    def _forget(self, member: Member) -> None:
        if self.members.get((member.group, member.consumer_id)) is member:
            del self.members[member.group, member.consumer_id]

    async def _member(self, group: str, consumer_id: str) -> Member:
        """One that registered here, or with another node: then this one takes it over."""
        known = self.members.get((group, consumer_id))
        if known is not None:
            return known
        described = await self._described(group)
        for told in described.members:
            if told.group_instance_id == consumer_id:
                topics = sorted(subscribed_topics(told.member_metadata) or ())
                return self._add(Member(self._cluster, group, consumer_id, topics, session_timeout_ms=30_000))
        raise HttpError(
            NOT_FOUND,
            "unknown_member_id",
            f"The group {group} has no consumer {consumer_id}, or no longer: register it.",
            kafka_error=ErrorCode.UNKNOWN_MEMBER_ID.name,
        )

    async def heartbeat(self, group: str, consumer_id: str) -> dict[str, Any]:
        member = await self._alive(group, consumer_id)
        await self._joined(member, 0)
        return member.told()

    async def _alive(self, group: str, consumer_id: str) -> Member:
        """The member, after a heartbeat; taken over from another node that had taken it over from here."""
        member = await self._member(group, consumer_id)
        try:
            await member.heartbeat()
        except BrokerError as error:
            self._forget(member)
            if error.code is not ErrorCode.FENCED_INSTANCE_ID:
                raise
            member = await self._member(group, consumer_id)
        return member

    async def leave(self, group: str, consumer_id: str) -> None:
        member = await self._member(group, consumer_id)
        self._forget(member)
        await member.leave()

    # Reading

    async def poll(
        self, group: str, consumer_id: str, *, limit: int, wait_ms: int, encoding: Encoding
    ) -> dict[str, Any]:
        """What comes next in the partitions that the member was given. Counts as a heartbeat."""
        deadline = Deadline(min(wait_ms, self._consuming.wait_ms_max))
        found: list[Received] = []
        while True:
            member = await self._alive(group, consumer_id)
            if await self._joined(member, deadline.left_ms):
                pause_ms = min(deadline.left_ms, member.session_timeout_ms // HEARTBEAT_SHARE)
                async with member.lock:
                    found = await self._read(member, min(limit, self._consuming.records_max), pause_ms, encoding)
            if found or not deadline.left_ms:
                return {**member.told(), "records": found}

    async def _read(self, member: Member, limit: int, wait_ms: int, encoding: Encoding) -> list[Received]:
        await self._find_positions(member)
        assignment = member.assignment
        if not assignment:
            await asyncio.sleep(wait_ms / 1000)
            return []
        member.turn = (member.turn + 1) % len(assignment)
        found: list[Received] = []
        for at in (*assignment[member.turn :], *assignment[: member.turn]):
            if len(found) >= limit:
                break
            try:
                found += await self._read_partition(member, at, limit - len(found), 0, encoding)
            except BrokerError:
                if not found:  # else what was read is told first
                    raise
        if not found and wait_ms:
            found = await self._wait_for_any(member, limit, wait_ms, encoding)
        return found

    async def _wait_for_any(self, member: Member, limit: int, wait_ms: int, encoding: Encoding) -> list[Received]:
        """One long poll per partition; the first that has something ends it."""
        reads = {
            asyncio.create_task(self._read_partition(member, at, limit, wait_ms, encoding)): at
            for at in member.assignment
        }
        try:
            done, _ = await asyncio.wait(reads, timeout=wait_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
            failed = [error for read in done if (error := read.exception()) is not None]
            if failed and len(failed) == len(done):
                raise failed[0]
            return [record for read in done if read.exception() is None for record in read.result()]
        finally:
            for read in reads:
                read.cancel()

    async def _read_partition(
        self, member: Member, at: TopicPartition, limit: int, wait_ms: int, encoding: Encoding
    ) -> list[Received]:
        try:
            part = await self._consuming.read(
                *at, member.positions[at], limit=limit, wait_ms=wait_ms, encoding=encoding
            )
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            member.positions[at] = await self._consuming.offset_at(*at, EARLIEST)
            return []
        if at in member.positions:
            member.positions[at] = part.next_offset
        return part.records

    async def _find_positions(self, member: Member) -> None:
        """Where the group has committed, or at the beginning."""
        unknown = [at for at in member.assignment if at not in member.positions]
        if not unknown:
            return
        committed = await self.committed(member.group, unknown)
        for at in unknown:
            offset = committed.get(at)
            member.positions[at] = await self._consuming.offset_at(*at, EARLIEST) if offset is None else offset

    # Offsets

    async def commit(self, group: str, at: TopicPartition, offset: int, consumer_id: str | None) -> dict[str, Any]:
        """By the member that is named, or that reads the partition; else as somebody outside of the group."""
        member = await self._committer(group, at, consumer_id)
        partition = OffsetCommitRequestPartition(partition_index=at.partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=NO_GENERATION if member is None else member.generation,
            member_id=NOBODY if member is None else member.member_id,
            group_instance_id=None if member is None else member.consumer_id,
            topics=[OffsetCommitRequestTopic(name=at.topic, partitions=[partition])],
        )
        try:
            await self._cluster.at_coordinator(group, request, _committed)
        except BrokerError as error:
            if member is not None and error.code in REJOIN:
                member.rejoin(error.code)
            if member is None and error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                raise HttpError(
                    CONFLICT,
                    "group_has_members",
                    f"The group {group} has members, and only those can commit: say which by consumer_id.",
                    kafka_error=error.code.name,
                ) from None
            raise
        return {"group": group, "topic": at.topic, "partition": at.partition, "offset": offset}

    async def _committer(self, group: str, at: TopicPartition, consumer_id: str | None) -> Member | None:
        if self._cluster.ways.partition_count(at.topic) is None:
            await self._cluster.ways.refresh(at.topic)
        if at.partition >= (self._cluster.ways.partition_count(at.topic) or 0):
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {at.partition} of {at.topic}."
            )
        if consumer_id is not None:
            member = await self._member(group, consumer_id)
            await self._joined(member, self._cluster.timeout_ms)
            return member
        owners = (each for each in self.members.values() if each.group == group and at in each.assignment)
        return next(owners, None)

    async def committed(self, group: str, partitions: Sequence[TopicPartition] | None) -> dict[TopicPartition, int]:
        """Of all partitions that the group has committed, or of these."""
        asked = None
        if partitions is not None:
            topics: dict[str, list[int]] = {}
            for topic, index in partitions:
                topics.setdefault(topic, []).append(index)
            asked = [OffsetFetchRequestTopics(name=name, partition_indexes=some) for name, some in topics.items()]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=asked)], require_stable=True
        )
        return await self._cluster.at_coordinator(group, request, _offsets)

    # What there is

    async def all(self, nodes: Sequence[int]) -> list[dict[str, Any]]:
        answers = await self._cluster.everywhere(ListGroupsRequest(), nodes)
        groups = {group.group_id: group for answer in answers.values() for group in answer.groups}
        return [
            {
                "group": name,
                "state": group.group_state,
                "type": group.group_type,
                "protocol_type": group.protocol_type,
            }
            for name, group in sorted(groups.items())
        ]

    async def describe(self, group: str) -> dict[str, Any]:
        described = await self._described(group)
        committed = await self.committed(group, None)
        if described.group_state == DEAD and not committed:
            raise HttpError(
                NOT_FOUND, "group_id_not_found", f"There is no group {group}.", kafka_error="GROUP_ID_NOT_FOUND"
            )
        readers = {at: each for each in described.members for at in read_assignment(each.member_assignment)}
        turns = asyncio.Semaphore(LAGS_AT_ONCE)
        wanted = sorted({*committed, *readers})
        lags = await asyncio.gather(*(self._lag(at, committed.get(at), turns) for at in wanted))
        known = [lag["records"] for lag in lags if lag["records"] is not None]
        ages = [lag["seconds"] for lag in lags if lag["seconds"] is not None]
        return {
            "group": group,
            "state": described.group_state,
            "protocol": described.protocol_data,
            "coordinator": await self._cluster.coordinator_of(group),
            "members": [_member(each) for each in described.members],
            "partitions": [
                {
                    "topic": at.topic,
                    "partition": at.partition,
                    "committed_offset": committed.get(at),
                    "member_id": readers[at].member_id if at in readers else None,
                    "lag": lag,
                }
                for at, lag in zip(wanted, lags, strict=True)
            ],
            "lag": {"records": sum(known), "seconds": max(ages, default=0.0)},
        }

    async def _lag(self, at: TopicPartition, committed: int | None, turns: asyncio.Semaphore) -> dict[str, Any]:
        """In records, and in seconds: the age of the next record to be read."""
        async with turns:
            try:
                end = await self._consuming.offset_at(*at, LATEST)
                if committed is None or committed >= end:
                    return {"records": None if committed is None else 0, "seconds": None if committed is None else 0.0}
                start = max(committed, await self._consuming.offset_at(*at, EARLIEST))
                part = await self._consuming.read(*at, start, limit=1, wait_ms=0, encoding=Encoding.BASE64)
            except BrokerError:
                return {"records": None, "seconds": None}
        age_ms = self._clock.now_ms() - part.records[0].timestamp_ms if part.records else 0
        return {"records": end - committed, "seconds": max(0, age_ms) / 1000}

    async def _described(self, group: str) -> DescribedGroup:
        return await self._cluster.at_coordinator(group, DescribeGroupsRequest(groups=[group]), _described)


def _described(answer: Any) -> DescribedGroup:
    group: DescribedGroup = answer.groups[0]
    if group.error_code and group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        raise BrokerError(ErrorCode(group.error_code), group.error_message or "")
    return group


def _member(told: Any) -> dict[str, Any]:
    return {
        "member_id": told.member_id,
        "consumer_id": told.group_instance_id,
        "client_id": told.client_id,
        "host": told.client_host,
        "topics": sorted(subscribed_topics(told.member_metadata) or ()),
        "assignment": [
            {"topic": topic, "partition": index} for topic, index in sorted(read_assignment(told.member_assignment))
        ],
    }


def _committed(answer: Any) -> None:
    code = answer.topics[0].partitions[0].error_code
    if code:
        raise BrokerError(ErrorCode(code))


def _offsets(answer: OffsetFetchResponse) -> dict[TopicPartition, int]:
    group = answer.groups[0]
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if group.error_code:
        raise BrokerError(ErrorCode(group.error_code))
    found: dict[TopicPartition, int] = {}
    for topic in group.topics:
        for partition in topic.partitions:
            require(partition.error_code)
            if partition.committed_offset >= 0:
                found[TopicPartition(topic.name, partition.partition_index)] = partition.committed_offset
    return found
