"""A shard with everything around it that the runtime gives it: a log, a clock, and callers who wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.config import GroupConfig
from ottla.errors import BrokerError, ErrorCode
from ottla.groups.log_format import decode_record, encode_record
from ottla.groups.records import GroupRecord, OffsetPending, TransactionEnded
from ottla.groups.shard import Caller, GroupShard
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.protocol.versioned import encode_with_version
from ottla.replicated import Reply, Result
from tests.ticket import Ticket

START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 100
NEWEST_JOIN = 9

Offsets = Mapping[tuple[str, int], int]
"""By topic and partition."""

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS)


class Dice:
    """Randomness that counts up, so that member ids are the same in every run."""

    def __init__(self) -> None:
        self.count = 0

    def randint(self, low: int, high: int) -> int:
        return high

    def randbytes(self, count: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(count, "big")


class Host:
    """What the runtime does with a shard, without a disk."""

    def __init__(self, config: GroupConfig = CONFIG) -> None:
        self.config = config
        self.dice = Dice()
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.batch_sizes: list[int] = []
        """How many records each result had that had any."""
        self.tickets: list[Ticket] = []
        self.shard = GroupShard(config, self.dice)

    def call(self, decide: Callable[[GroupShard, Ticket, int], Result[GroupRecord, Any]]) -> Ticket:
        ticket = Ticket()
        self.tickets.append(ticket)
        try:
            result = decide(self.shard, ticket, self.now_ms)
        except BrokerError as refusal:
            ticket.answers.append(refusal)
            raise
        self._carry_out(result)
        if result.response is not None:
            ticket.answers.append(result.response)
        return ticket

    def _carry_out(self, result: Result[GroupRecord, Any]) -> None:
        if result.records:
            self.batch_sizes.append(len(result.records))
        for record in result.records:
            assert not isinstance(record, OffsetPending | TransactionEnded), "tests of transactions have batches"
            self.log.append(encode_record(record))
            self.shard.replay(record)
        for reply in result.replies:
            self._deliver(reply)

    def _deliver(self, reply: Reply) -> None:
        assert isinstance(reply.token, Ticket)
        reply.token.answers.append(reply.response)

    def after(self, delay_ms: int) -> None:
        """Let time pass, and tick whenever the shard asks for it."""
        end_ms = self.now_ms + delay_ms
        while (deadline_ms := self.shard.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self._carry_out(self.shard.tick(self.now_ms))
        self.now_ms = end_ms

    def records(self) -> list[GroupRecord]:
        """The whole log, read back from its bytes."""
        return [record for key, value in self.log if (record := decode_record(key, value)) is not None]

    def restart(self) -> None:
        self.shard = self.loaded()
        self.after(0)

    def loaded(self) -> GroupShard:
        """A shard that knows nothing but the log."""
        shard = GroupShard(self.config, self.dice)
        for record in self.records():
            shard.replay(record)
        return shard

    # What is asked without being a member

    def state_of(self, group_id: str) -> str:
        state: str = self.describe(group_id).group_state
        return state

    def describe(self, group_id: str, api_version: int = 5) -> Any:
        return self.call(
            lambda shard, _, __: shard.describe_group(group_id, Caller("admin", "/host", api_version))
        ).answer

    def commit(
        self, group_id: str, offsets: Mapping[tuple[str, int], int], **fields: Any
    ) -> dict[tuple[str, int], int]:
        """Commit and return the error of each partition."""
        api_version = fields.pop("api_version", 9)
        unknown = fields.pop("unknown", ())
        metadata = fields.pop("metadata", "")
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (topic, index), offset in offsets.items()
            ],
            **fields,
        )
        caller = Caller("client", "/host", api_version)
        response = self.call(lambda shard, _, now_ms: shard.commit_offsets(request, caller, now_ms, unknown)).answer
        return {
            (topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """All offsets of a group."""
        asked = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        response = self.call(lambda shard, _, __: shard.fetch_offsets(asked)).answer
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in response.topics
            for partition in topic.partitions
        }


def refused(action: Callable[[], object]) -> ErrorCode:
    """The error with which something is refused; NONE if it is not."""
    try:
        action()
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE


def subscription(*topics: str, version: int = 1) -> bytes:
    return encode_with_version(ConsumerProtocolSubscription(topics=topics), version)


class Client:
    """A consumer, as far as its coordinator sees it."""

    def __init__(self, host: Host, group_id: str, name: str, *, instance_id: str | None = None) -> None:
        self.host = host
        self.group_id = group_id
        self.name = name
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.protocol_type = "consumer"
        self.protocols: Sequence[tuple[str, bytes]] = [("range", subscription("t"))]
        self.session_ms = SESSION_MS
        self.rebalance_ms = REBALANCE_MS

    def join(self, api_version: int = NEWEST_JOIN) -> Ticket:
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in self.protocols],
        )
        caller = Caller(self.name, "/host", api_version)
        return self.host.call(lambda shard, ticket, now_ms: shard.join_group(request, caller, ticket, now_ms))

    def enter(self, api_version: int = NEWEST_JOIN) -> Ticket:
        """Join as a client does: with the id that it is first given, if it is given one."""
        ticket = self.join(api_version)
        if not ticket.waits and ticket.answer.member_id and ticket.answer.error_code:
            self.member_id = ticket.answer.member_id
            ticket = self.join(api_version)
        return ticket

    def learn(self, joined: Ticket) -> JoinGroupResponse:
        """Take in the answer to a join."""
        answer: JoinGroupResponse = joined.answer
        assert answer.error_code == 0, answer
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        return answer

    def sync(self, assignments: Mapping[str, bytes] | None = None, **fields: Any) -> Ticket:
        api_version = fields.pop("api_version", 3)
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=fields.pop("generation", self.generation),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
            **fields,
        )
        caller = Caller(self.name, "/host", api_version)
        return self.host.call(lambda shard, ticket, now_ms: shard.sync_group(request, caller, ticket, now_ms))

    def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self.host.call(lambda shard, _, now_ms: shard.heartbeat(request, now_ms))

    def leave(self) -> LeaveGroupResponse:
        leavers = [MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)]
        response: LeaveGroupResponse = self.host.call(
            lambda shard, _, now_ms: shard.leave_group(self.group_id, leavers, now_ms)
        ).answer
        return response

    def commit(self, offsets: Offsets) -> dict[tuple[str, int], int]:
        return self.host.commit(
            self.group_id,
            offsets,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.generation,
            group_instance_id=self.instance_id,
        )


def stable_group(host: Host, *names: str, group_id: str = "g", static: bool = False) -> list[Client]:
    """A group with the given members, each assigned its own name; the first leads."""
    clients = [Client(host, group_id, name, instance_id=name if static else None) for name in names]
    tickets = [client.enter() for client in clients]
    host.after(2 * DELAY_MS)
    settle(host, clients, tickets)
    return clients


def joined_pair(host: Host) -> tuple[Client, Client]:
    """Two members that know of each other and have no assignment yet; the first leads."""
    a, b = Client(host, "g", "a"), Client(host, "g", "b")
    tickets = a.enter(), b.enter()
    host.after(2 * DELAY_MS)
    a.learn(tickets[0])
    b.learn(tickets[1])
    return a, b


def settle(host: Host, clients: Sequence[Client], tickets: Sequence[Ticket]) -> None:
    """Take a group from answered joins to stable."""
    for client, ticket in zip(clients, tickets, strict=True):
        client.learn(ticket)
    leader_id = tickets[0].answer.leader
    work = {client.member_id: client.name.encode() for client in clients}
    for client in sorted(clients, key=lambda each: each.member_id == leader_id):
        synced = client.sync(work if client.member_id == leader_id else None)
        assert synced.waits or isinstance(synced.answer, SyncGroupResponse)
    assert host.state_of(clients[0].group_id) == "Stable"


def joined_alone(host: Host, client: Client, api_version: int = 9) -> Ticket:
    """The answer to a first member, when the group has waited for others."""
    ticket = client.enter(api_version)
    host.after(DELAY_MS)
    return ticket
