"""From topic to topic, exactly once: what was made of records, and how far the reader has come, in one transaction.

As Kafka's TransactionalMessageCopier does it: a copier has a partition for itself, and a transactional id that goes
with it. Whoever starts with that id first fences the one before, then asks how far the group has come, and reads on
from there. Several may have the same partition: then all but the last are zombies, and must not get anything through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.testing.history import Operation, Outcome
from ottla.testing.sim_offsets import OFFSET_FETCH_VERSION, find_coordinator
from ottla.testing.sim_transactions import (
    AGAIN,
    ATTEMPTS_MAX,
    COMMITS,
    Attempt,
    CommittedReader,
    LostIdentityError,
    TransactionalProducer,
)
from ottla.testing.sim_wire import UnavailableError, pause
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.testing.sim_client import SimClient

TXN_OFFSET_COMMIT_VERSION = 5
RECORDS_MAX = 5


@dataclass(slots=True, kw_only=True)
class Copying(Attempt):
    """A transaction of a copier."""

    source: TopicPartition
    offsets: tuple[int, ...]
    """Of the records that were read."""
    next_offset: int


@dataclass(slots=True, kw_only=True)
class CopyPosition(Operation):
    """How far the copiers of a partition have come in the end."""

    source: TopicPartition
    offset: int


def copy_of(source: TopicPartition, offset: int) -> bytes:
    """What a record becomes: it says where it came from."""
    return f"{source}@{offset}".encode()


class Copier(TransactionalProducer):
    def __init__(
        self, client: SimClient, source: TopicPartition, targets: Sequence[TopicPartition], *, group: str
    ) -> None:
        super().__init__(client, f"{group}-{source.partition}", targets)
        self._source = source
        self._group = group
        self._reader = CommittedReader(client, [source])

    async def _start(self) -> None:
        await super()._start()
        try:
            offset = await stable_offset(self._client, self._group, self._source)
        except UnavailableError:
            self._producer = None
            raise
        self._reader = CommittedReader(self._client, [self._source], from_offset=offset)

    async def _transaction(self) -> None:
        try:
            records = await self._reader.poll(self._source)
        except UnavailableError:
            self._cluster.forget_leaders()
            return
        # Whatever is not in this transaction is read again: the reader stands behind all of it.
        taken = records[:RECORDS_MAX]
        if not taken:
            return
        next_offset = self._reader.position(self._source) if len(taken) == len(records) else taken[-1][0] + 1
        copying = Copying(
            client=self._client.name,
            began=self._client.now(),
            source=self._source,
            offsets=tuple(offset for offset, _ in taken),
            next_offset=next_offset,
        )
        self._client.history.add(copying)
        for offset, _ in taken:
            await self._send(self._dice.choice(self._partitions), copy_of(self._source, offset))
        await self._commit_offset(next_offset)
        copying.asked_to_commit = self._dice.random() < COMMITS
        await self._end(copying)
        if copying.asked_to_commit:
            self._reader = CommittedReader(self._client, [self._source], from_offset=next_offset)
        else:
            raise LostIdentityError  # it was aborted, and has to be done again from where the group is

    async def _commit_offset(self, offset: int) -> None:
        assert self._producer is not None
        at = TxnOffsetCommitRequestPartition(partition_index=self._source.partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self._group,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=self._source.topic, partitions=[at])],
        )
        for _ in range(ATTEMPTS_MAX):
            try:
                coordinator = await find_coordinator(self._cluster, self._group)
                answer = await self._cluster.ask(coordinator, request, TXN_OFFSET_COMMIT_VERSION)
                code = answer.topics[0].partitions[0].error_code
            except UnavailableError:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if not code:
                return
            if code not in AGAIN:
                self._require_explicable(code, "TxnOffsetCommit")
                break
            await pause(self._dice, 0.2)
        raise LostIdentityError


async def stable_offset(client: SimClient, group: str, source: TopicPartition) -> int:
    """How far a group has come, once no transaction can change that any more; 0 where it has nothing."""
    topics = [OffsetFetchRequestTopics(name=source.topic, partition_indexes=[source.partition])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)
    for _ in range(ATTEMPTS_MAX):
        try:
            coordinator = await find_coordinator(client.cluster, group)
            answer = (await client.cluster.ask(coordinator, request, OFFSET_FETCH_VERSION)).groups[0]
        except UnavailableError:
            await pause(client.dice, 0.2)
            continue
        if not answer.error_code:
            found = answer.topics[0].partitions[0]
            if not found.error_code:
                return max(int(found.committed_offset), 0)
        await pause(client.dice, 0.2)
    raise UnavailableError("the group does not tell how far it has come")


async def note_positions(client: SimClient, group: str, sources: Sequence[TopicPartition]) -> None:
    """Put into the history how far the copiers have come in the end."""
    for source in sources:
        position = CopyPosition(client=client.name, began=client.now(), source=source, offset=-1)
        while position.offset < 0:
            try:
                position.offset = await stable_offset(client, group, source)
            except UnavailableError:
                await pause(client.dice, 0.5)
        position.end(Outcome.OK, client.now())
        client.history.add(position)
