"""The groups of one `__consumer_offsets` partition: the only door for handlers and the runtime.

Request methods decide and return a `Result`; `replay` alone changes what the log holds, and sees records in log
order whether they were just written, recovered or replicated. Members that come from the log get their sessions at
the first `tick` after it: a shard that was just loaded says that one is due at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ottla.config import GroupConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.groups import describe, offsets, pending_offsets
from ottla.groups.classic import NO_MEMBER_ID, ClassicGroup
from ottla.groups.effects import Effects
from ottla.groups.environment import Environment
from ottla.groups.offsets import CommittedOffsets, OffsetsByTopic, Unknown
from ottla.groups.pending_offsets import PendingOffsets
from ottla.groups.records import (
    GroupDeleted,
    GroupMetadata,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
    OffsetPending,
    TransactionEnded,
)
from ottla.groups.requests import Join, Sync
from ottla.groups.retention import expired
from ottla.groups.states import GroupState
from ottla.groups.timers import Timer, Timers
from ottla.ports import Random
from ottla.protocol.messages.delete_groups import DeletableGroupResult
from ottla.protocol.messages.describe_groups import DescribedGroup
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.protocol.messages.list_groups import ListedGroup
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.protocol.primitives import INT32_MIN
from ottla.replicated import Result, Token

TOMBSTONES_PER_TICK_MAX = 1_000
"""What one look for expired offsets writes at most: the rest waits for the next tick, and requests get their turn."""

PROTOCOL_REQUIRED_SINCE = 5
"""SyncGroup version from which a member must name the protocol that it thinks the group has (KIP-559)."""
GROUP_NOT_FOUND_SINCE = 9
"""OffsetCommit version from which a commit to an unknown group is told so."""

MS_PER_MINUTE = 60_000


class Caller(NamedTuple):
    """Who asks, and in which version of the API."""

    client_id: str
    client_host: str
    api_version: int


class GroupShard:
    __slots__ = ("_check_timer", "_config", "_env", "_groups", "_loaded", "_offsets", "_pending", "_timers")

    def __init__(self, config: GroupConfig, random: Random) -> None:
        self._config = config
        self._timers = Timers()
        self._env = Environment(config=config, random=random, timers=self._timers)
        self._groups: dict[str, ClassicGroup] = {}
        """Every group that has members, offsets or a record."""
        self._offsets = CommittedOffsets()
        self._pending = PendingOffsets()
        self._loaded: set[str] = set()
        """Groups with members that came from the log, and whose sessions have yet to start."""
        self._check_timer = Timer(self._forget_expired)

    # Membership

    def join_group(
        self, request: JoinGroupRequest, caller: Caller, token: Token, now_ms: int
    ) -> Result[GroupRecord, JoinGroupResponse]:
        effects = Effects()
        try:
            self._check_join(request)
            group = self._group_to_join(request)
            group.join(_join(request, caller, token), now_ms, effects)
        except BrokerError as refusal:
            effects.reply(token, JoinGroupResponse(member_id=request.member_id, error_code=refusal.code))
        self._drop_if_unused(request.group_id)
        return effects.result_for(token, JoinGroupResponse)

    def _check_join(self, request: JoinGroupRequest) -> None:
        _require_group_id(request.group_id)
        low_ms, high_ms = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not low_ms <= request.session_timeout_ms <= high_ms:
            raise BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def _group_to_join(self, request: JoinGroupRequest) -> ClassicGroup:
        group = self._groups.get(request.group_id)
        if group is not None:
            return group
        if request.member_id != NO_MEMBER_ID:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._group_for(request.group_id)

    def sync_group(
        self, request: SyncGroupRequest, caller: Caller, token: Token, now_ms: int
    ) -> Result[GroupRecord, SyncGroupResponse]:
        _require_group_id(request.group_id)
        if caller.api_version >= PROTOCOL_REQUIRED_SINCE and None in (request.protocol_type, request.protocol_name):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        effects = Effects()
        self._group_of_member(request.group_id).sync(_sync(request, token), now_ms, effects)
        return effects.result_for(token, SyncGroupResponse)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Result[GroupRecord, HeartbeatResponse]:
        _require_group_id(request.group_id)
        self._group_of_member(request.group_id).heartbeat(
            request.member_id, request.group_instance_id, request.generation_id, now_ms
        )
        return Result(response=HeartbeatResponse())

    def leave_group(
        self, group_id: str, leavers: Sequence[MemberIdentity], now_ms: int
    ) -> Result[GroupRecord, LeaveGroupResponse]:
        _require_group_id(group_id)
        effects = Effects()
        group = self._groups.get(group_id)
        if group is None:
            errors = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
        else:
            who = [(leaver.member_id, leaver.group_instance_id) for leaver in leavers]
            reason = ", ".join(f"{each.member_id or each.group_instance_id} leaves: {each.reason}" for each in leavers)
            errors = group.leave(who, reason, now_ms, effects)
            self._drop_if_unused(group_id)
        return effects.result(LeaveGroupResponse(members=list(map(_left, leavers, errors))))

    def _group_of_member(self, group_id: str) -> ClassicGroup:
        """A group that does not exist has no members, which is what its would-be member needs to know."""
        group = self._groups.get(group_id)
        if group is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # Offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, caller: Caller, now_ms: int, unknown: Unknown = ()
    ) -> Result[GroupRecord, OffsetCommitResponse]:
        """`unknown`: partitions of the request that do not exist."""
        refusal = ErrorCode.NONE
        try:
            self._check_commit(request, caller, now_ms)
        except BrokerError as error:
            refusal = error.code
        records, response = offsets.commit(
            request,
            refusal=refusal,
            unknown=unknown,
            metadata_max_bytes=self._config.offset_metadata_max_bytes,
            now_ms=now_ms,
        )
        return Result(records=records, response=response)

    def _check_commit(self, request: OffsetCommitRequest, caller: Caller, now_ms: int) -> None:
        generation = request.generation_id_or_member_epoch
        group = self._groups.get(request.group_id)
        if group is not None:
            group.check_commit(request.member_id, request.group_instance_id, generation, now_ms)
        elif generation >= 0:
            is_told = caller.api_version >= GROUP_NOT_FOUND_SINCE
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.ILLEGAL_GENERATION)

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, now_ms: int, unknown: Unknown = ()
    ) -> Result[GroupRecord, TxnOffsetCommitResponse]:
        """Offsets that count once the producer's transaction is committed."""
        refusal = ErrorCode.NONE
        try:
            self._check_transactional_commit(request)
        except BrokerError as error:
            refusal = error.code
        records, response = pending_offsets.commit(
            request,
            refusal=refusal,
            unknown=unknown,
            metadata_max_bytes=self._config.offset_metadata_max_bytes,
            now_ms=now_ms,
        )
        return Result(records=records, response=response)

    def _check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        _require_group_id(request.group_id)
        group = self._groups.get(request.group_id)
        if group is not None:
            group.check_transactional_commit(request.member_id, request.group_instance_id, request.generation_id)
        elif request.generation_id >= 0:
            raise BrokerError(ErrorCode.ILLEGAL_GENERATION)

    def end_transaction(self, ended: TransactionEnded) -> Result[GroupRecord, ErrorCode]:
        """The coordinator of the producer's transaction says how it ended."""
        return Result(records=[ended], response=ErrorCode.NONE)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, require_stable: bool = False
    ) -> Result[GroupRecord, OffsetFetchResponseGroup]:
        unstable = self._pending.partitions_of(request.group_id) if require_stable else ()
        topics = self._offsets.fetch(request.group_id, request.topics, unstable)
        return Result(response=OffsetFetchResponseGroup(group_id=request.group_id, topics=topics))

    def delete_offsets(
        self, request: OffsetDeleteRequest, unknown: Unknown = ()
    ) -> Result[GroupRecord, OffsetDeleteResponse]:
        _require_group_id(request.group_id)
        group = self._groups.get(request.group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY and not group.is_consumer_group:
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP)
        subscribed = frozenset[str]() if group.state is GroupState.EMPTY else group.topics()
        records, response = self._offsets.deletion_on_request(request, subscribed, unknown)
        return Result(records=records, response=response)

    def topic_deleted(self, topic: str, now_ms: int) -> Result[GroupRecord, None]:
        """With the topic goes what groups had read of it."""
        return Result(records=self._offsets.deletion_of_topic(topic))

    # Administration

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> Sequence[ListedGroup]:
        return [describe.listed(group) for group in self._groups.values() if describe.matches(group, states, types)]

    def groups(self) -> Iterator[tuple[ClassicGroup, OffsetsByTopic]]:
        """All of them, with what they have committed: for figures."""
        for group_id, group in self._groups.items():
            yield group, self._offsets.of(group_id)

    def describe_group(
        self, group_id: str, caller: Caller, authorized_operations: int = INT32_MIN
    ) -> Result[GroupRecord, DescribedGroup]:
        group = self._groups.get(group_id)
        if group is None:
            return Result(response=describe.described_as_missing(group_id, caller.api_version))
        return Result(response=describe.described(group, authorized_operations))

    def delete_group(self, group_id: str) -> Result[GroupRecord, DeletableGroupResult]:
        group = self._groups.get(group_id)
        if group is None:
            return Result(response=DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND))
        if group.state is not GroupState.EMPTY:
            return Result(response=DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NON_EMPTY_GROUP))
        records = [*self._offsets.deletion(group_id), GroupDeleted(group_id)]
        return Result(records=records, response=DeletableGroupResult(group_id=group_id))

    # Time

    def next_deadline_ms(self) -> int | None:
        if self._loaded or (self._groups and self._check_timer.deadline_ms is None):
            return 0
        return self._timers.next_deadline_ms()

    def tick(self, now_ms: int) -> Result[GroupRecord, None]:
        """Do what is due. Stops at the first record: what comes after it must see it replayed, in the next tick."""
        effects = Effects()
        self._start(now_ms, effects)
        if not effects.records:
            for timer in self._timers.due(now_ms):
                timer.on_time(now_ms, effects)
                if effects.records:
                    break
        return effects.result()

    def _start(self, now_ms: int, effects: Effects) -> None:
        for group_id in self._loaded:
            group = self._groups.get(group_id)
            if group is not None:
                group.loaded(now_ms, effects)
        self._loaded.clear()
        if self._groups and self._check_timer.deadline_ms is None:
            # Spread, so that the shards of a node, which are loaded together, do not all look at the same moment.
            interval_ms = self._config.offsets_retention_check_interval_ms
            self._timers.set(self._check_timer, now_ms + self._env.random.randint(1, interval_ms))

    def _forget_expired(self, now_ms: int, effects: Effects) -> None:
        for group in list(self._groups.values()):
            if len(effects.records) >= TOMBSTONES_PER_TICK_MAX:
                self._timers.set(self._check_timer, now_ms)
                return
            self._forget_expired_of(group, now_ms, effects)
        if self._groups:
            self._timers.set(self._check_timer, now_ms + self._config.offsets_retention_check_interval_ms)

    def _forget_expired_of(self, group: ClassicGroup, now_ms: int, effects: Effects) -> None:
        if group.group_id in self._pending:
            return
        known = self._offsets.of(group.group_id)
        retention_ms = self._config.offsets_retention_minutes * MS_PER_MINUTE
        gone = list(expired(group, known, retention_ms=retention_ms, now_ms=now_ms))
        effects.records.extend(map(offsets.tombstone, gone))
        if group.is_idle and len(gone) == sum(map(len, known.values())):
            if group.is_logged:
                effects.records.append(GroupDeleted(group.group_id))
            else:
                self._drop_if_unused(group.group_id)

    # The log

    def replay(self, record: GroupRecord) -> None:
        if isinstance(record, OffsetCommitted):
            self._group_for(record.group_id)
            self._offsets.put(record)
            self._pending.overrule(record.group_id, record.topic, record.partition)
        elif isinstance(record, OffsetDeleted):
            self._offsets.remove(record)
            self._pending.overrule(record.group_id, record.topic, record.partition)
            self._drop_if_unused(record.group_id)
        elif isinstance(record, OffsetPending):
            self._group_for(record.offset.group_id)
            self._pending.put(record)
        elif isinstance(record, TransactionEnded):
            self._replay_end(record)
        elif isinstance(record, GroupMetadata):
            if self._group_for(record.group_id).adopt(record):
                self._loaded.add(record.group_id)
        elif isinstance(record, GroupDeleted):
            self._replay_deletion(record.group_id)

    def _replay_end(self, ended: TransactionEnded) -> None:
        for offset in self._pending.take(ended.producer_id, commits=ended.commits):
            if ended.commits:
                self._group_for(offset.group_id)
                self._offsets.put(offset)
            else:
                self._drop_if_unused(offset.group_id)

    def _replay_deletion(self, group_id: str) -> None:
        group = self._groups.pop(group_id, None)
        if group is not None:
            group.forget()
        if group_id in self._offsets or group_id in self._pending:
            self._group_for(group_id)

    def _group_for(self, group_id: str) -> ClassicGroup:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id, self._env)
        return group

    def _drop_if_unused(self, group_id: str) -> None:
        """A group of which the log holds nothing and that nobody is in would be gone after a restart anyway."""
        group = self._groups.get(group_id)
        if group is None or not group.is_idle or group.is_logged:
            return
        if group_id not in self._offsets and group_id not in self._pending:
            group.forget()
            del self._groups[group_id]

    def unload(self) -> Result[GroupRecord, None]:
        """This node no longer coordinates these groups. Whoever waits is told to look for the new coordinator."""
        effects = Effects()
        for group in self._groups.values():
            group.close(effects)
        self._groups.clear()
        self._loaded.clear()
        self._timers.discard(self._check_timer)
        return effects.result()


def _require_group_id(group_id: str) -> None:
    if not group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)


def _join(request: JoinGroupRequest, caller: Caller, token: Token) -> Join:
    timeout_ms = request.rebalance_timeout_ms
    return Join(
        token=token,
        api_version=caller.api_version,
        client_id=caller.client_id,
        client_host=caller.client_host,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple({protocol.name: protocol.metadata for protocol in request.protocols}.items()),
        reason=request.reason or "",
    )


def _left(leaver: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error)


def _sync(request: SyncGroupRequest, token: Token) -> Sync:
    return Sync(
        token=token,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={given.member_id: given.assignment for given in request.assignments},
    )
