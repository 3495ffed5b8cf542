"""Copying partitions from their leaders: one fetcher per leader, one connection, one fetch session for all partitions.

    fetch ──▶ leader waits for news ──▶ answer ──▶ append ──▶ commit ──▶ the next fetch says what is on disk

A fetch names the partitions whose position has changed, so that idle ones cost nothing. When partitions come or go
while the leader holds a fetch back, the next one is sent after it: the leader then answers the first at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ottla.errors import BrokerError, CorruptBatchError, ErrorCode
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.protocol.one_fetch import OneAnswer, OneFetch
from ottla.replication.fetch_sessions import EPOCH_MAX, INITIAL_EPOCH, SESSIONLESS
from ottla.replication.replica import APPEND, Decision, Replica, Restart, Truncate, decide
from ottla.storage.journal_format import Kind

if TYPE_CHECKING:
    from ottla.config.replication import ReplicationConfig
    from ottla.ports import Bytes, Clock
    from ottla.runtime.committer import Committer
    from ottla.runtime.room import Room
    from ottla.runtime.timers import Timers
    from ottla.services import Deferred
    from ottla.types import TopicId

log_lines = logging.getLogger(__name__)

FETCH_VERSION = 17
CHANNEL = "replica"
OUTSTANDING_MAX = 2
READERS_WAIT_MS = 20
"""How long a leader holds a fetch back at most, where somebody reads from the follower."""
RETRY_MS = 100
"""Before a leader that can't be reached is asked again."""
REFUSED_MS_MIN = 10
REFUSED_MS_MAX = 1_000
"""Before a leader that has refused a partition is asked for it again: mostly it hears a moment later that it leads."""
ANSWER_MS = 5_000
"""How long an answer may take beyond the time that the leader was given."""

Key: TypeAlias = "tuple[TopicId, int]"
Address: TypeAlias = tuple[str, int]


class ReplicaFetchers:
    def __init__(
        self,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        address_of: Callable[[int], Address | None],
        send: Callable[..., Deferred[Any]],
        committer: Committer,
        room: Room,
        config: ReplicationConfig,
        clock: Clock,
        timers: Timers,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`send` is that of a BrokerClient; `address_of` says where a broker's Kafka port is."""
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.address_of = address_of
        self.send: Callable[..., Deferred[Any]] = send
        self.committer = committer
        self.room = room
        self.config = config
        self.clock = clock
        self.timers = timers
        self.loop = loop
        self.wait_ms = config.replica_fetch_wait_max_ms
        self._fetchers: dict[int, ReplicaFetcher] = {}

    def hurry(self) -> None:
        """Somebody reads from what is copied here: hear sooner how far that is committed."""
        self.wait_ms = min(self.wait_ms, READERS_WAIT_MS)
        for fetcher in self._fetchers.values():
            fetcher.ask_now()

    def follow(self, replica: Replica) -> None:
        fetcher = self._fetchers.get(replica.leader_id)
        if fetcher is None:
            fetcher = self._fetchers[replica.leader_id] = ReplicaFetcher(self, replica.leader_id)
        fetcher.add(replica)

    def unfollow(self, replica: Replica) -> None:
        fetcher = self._fetchers.get(replica.leader_id)
        if fetcher is not None:
            fetcher.remove(replica)

    def close(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.close()


class ReplicaFetcher:
    """All that is copied from one leader."""

    def __init__(self, node: ReplicaFetchers, leader_id: int) -> None:
        self._node = node
        self._leader_id = leader_id
        self._replicas: dict[Key, Replica] = {}
        self._named_in: dict[Replica, int] = {}
        """The number of the request that first named a replica: answers to earlier ones are not about it."""
        self._to_name: dict[Replica, None] = {}
        self._to_forget: dict[Key, None] = {}
        self._session_id = SESSIONLESS
        self._session_epoch = INITIAL_EPOCH
        self._generation = 0
        """Counts the sessions."""
        self._sent = 0
        self._answered = 0
        self._committing = 0
        self._is_scheduled = False
        self._is_pausing = False
        self._is_closed = False

    def add(self, replica: Replica) -> None:
        """Fetch it from here on. Its log must not be changed by others meanwhile."""
        key = (replica.topic_id, replica.index)
        self._replicas[key] = replica
        self._to_forget.pop(key, None)
        self._ready(replica)

    def remove(self, replica: Replica) -> None:
        key = (replica.topic_id, replica.index)
        if self._replicas.get(key) is replica:
            del self._replicas[key]
            self._named_in.pop(replica, None)
            self._to_name.pop(replica, None)
            self._to_forget[key] = None
            self._schedule()

    def ask_now(self) -> None:
        """Do not wait for what the last request waits for."""
        if 0 < self._sent - self._answered < OUTSTANDING_MAX and self._session_epoch != INITIAL_EPOCH:
            self._send()

    def close(self) -> None:
        self._is_closed = True

    def _ready(self, replica: Replica) -> None:
        """Its log is on disk as it is: the next fetch says where it ends."""
        if self._is_current(replica):
            replica.is_busy = False
            self._to_name[replica] = None
            self._schedule()

    def _is_current(self, replica: Replica) -> bool:
        return self._replicas.get((replica.topic_id, replica.index)) is replica

    # Sending

    def _schedule(self) -> None:
        """See at the end of this turn of the loop whether to send: many partitions may come at once."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._node.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        if self._is_closed or self._is_pausing:
            return
        outstanding = self._sent - self._answered
        has_changes = bool(self._to_name or self._to_forget)
        if outstanding == 0 and not self._committing:
            if self._replicas:
                self._send()
        elif 0 < outstanding < OUTSTANDING_MAX and has_changes and self._session_epoch != INITIAL_EPOCH:
            self._send()

    def _send(self) -> None:
        node = self._node
        address = node.address_of(self._leader_id)
        if address is None:
            self._pause()
            return
        is_full = self._session_epoch == INITIAL_EPOCH
        if is_full:
            self._to_name = dict.fromkeys(replica for replica in self._replicas.values() if not replica.is_busy)
            self._to_forget = {}
        self._sent += 1
        request: FetchRequest | OneFetch
        if len(self._to_name) == 1 and not is_full and not self._to_forget:
            request = self._take_one_named()
        else:
            request = self._take_all_named()
        if not is_full:
            self._session_epoch = 1 if self._session_epoch == EPOCH_MAX else self._session_epoch + 1
        number, generation = self._sent, self._generation
        timeout_ms = node.wait_ms + ANSWER_MS
        answer = node.send(address, request, version=FETCH_VERSION, timeout_ms=timeout_ms, channel=CHANNEL)
        answer.on_done(lambda done: self._on_answer(number, generation, done))

    def _take_one_named(self) -> OneFetch:
        node = self._node
        replica, _ = self._to_name.popitem()
        self._named_in.setdefault(replica, self._sent)
        log = replica.log
        return OneFetch(
            max_wait_ms=node.wait_ms,
            max_bytes=node.config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topic_id=replica.topic_id,
            index=replica.index,
            leader_epoch=replica.leader_epoch,
            offset=log.end_offset,
            last_epoch=replica.last_epoch,
            start_offset=log.start_offset,
            partition_max_bytes=node.config.replica_fetch_max_bytes,
            replica_id=node.node_id,
            replica_epoch=node.broker_epoch(),
        )

    def _take_all_named(self) -> FetchRequest:
        node = self._node
        return FetchRequest(
            replica_state=ReplicaState(replica_id=node.node_id, replica_epoch=node.broker_epoch()),
            max_wait_ms=node.wait_ms,
            min_bytes=1,
            max_bytes=node.config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._take_named(),
            forgotten_topics_data=self._take_forgotten(),
        )

    def _take_named(self) -> list[FetchTopic]:
        topics: dict[TopicId, list[FetchPartition]] = {}
        max_bytes = self._node.config.replica_fetch_max_bytes
        for replica in self._to_name:
            log = replica.log
            self._named_in.setdefault(replica, self._sent)
            topics.setdefault(replica.topic_id, []).append(
                FetchPartition(
                    partition=replica.index,
                    current_leader_epoch=replica.leader_epoch,
                    fetch_offset=log.end_offset,
                    last_fetched_epoch=replica.last_epoch,
                    log_start_offset=log.start_offset,
                    partition_max_bytes=max_bytes,
                )
            )
        self._to_name = {}
        return [FetchTopic(topic_id=topic_id, partitions=named) for topic_id, named in topics.items()]

    def _take_forgotten(self) -> list[ForgottenTopic]:
        topics: dict[TopicId, list[int]] = {}
        for topic_id, index in self._to_forget:
            topics.setdefault(topic_id, []).append(index)
        self._to_forget = {}
        return [ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in topics.items()]

    # Answers

    def _on_answer(self, number: int, generation: int, done: Deferred[Any]) -> None:
        self._answered += 1
        if self._is_closed:
            return
        if generation != self._generation:
            self._schedule()  # of a session that is no more
            return
        response: FetchResponse | OneAnswer | None = done.value
        if response is None:
            self._start_over()
            self._pause()
        elif response.error_code:
            self._start_over()
            if response.error_code not in SESSION_LOST:
                self._pause()
            self._schedule()
        else:
            if self._session_epoch == INITIAL_EPOCH:
                self._session_id = response.session_id
                self._session_epoch = INITIAL_EPOCH + 1
            self._take(number, response)
            self._go_on()

    def _start_over(self) -> None:
        """The session is lost: what the next request does not name is not fetched."""
        self._session_id, self._session_epoch = SESSIONLESS, INITIAL_EPOCH
        self._generation += 1
        self._named_in = {}

    def _pause(self) -> None:
        if not self._is_pausing:
            self._is_pausing = True
            self._node.timers.after_ms(RETRY_MS, self._end_pause)

    def _end_pause(self) -> None:
        self._is_pausing = False
        self._schedule()

    def _take(self, number: int, response: FetchResponse | OneAnswer) -> None:
        appended: list[Replica] = []
        now_ms = self._node.clock.now_ms()
        if isinstance(response, OneAnswer):
            one = self._named(response.topic_id, response.index, number)
            if one is not None and self._append(one, response, response.start_offset, now_ms):
                appended.append(one)
        else:
            for topic in response.responses:
                for data in topic.partitions:
                    replica = self._named(topic.topic_id, data.partition_index, number)
                    if replica is None:
                        continue
                    decision = decide(replica.log, data)
                    if decision is not APPEND:
                        self._obey(replica, data, decision)
                    elif self._append(replica, data, data.log_start_offset, now_ms):
                        appended.append(replica)
        if appended:
            self._committing += 1
            self._node.committer.after_commit(appended).on_done(lambda done: self._committed(appended, done))

    def _named(self, topic_id: TopicId, index: int, number: int) -> Replica | None:
        """The replica that an answer to a request is about; None if that does not concern it any more."""
        replica = self._replicas.get((topic_id, index))
        if replica is None or replica.is_busy or self._named_in.get(replica, self._sent + 1) > number:
            return None
        return replica

    def _append(self, replica: Replica, data: PartitionData | OneAnswer, start_offset: int, now_ms: int) -> bool:
        """Whether there is something to commit."""
        log, committer = replica.log, self._node.committer
        try:
            if data.records:
                self._require_room()
                committer.append_as_follower(replica, cast("Bytes", data.records), now_ms=now_ms)
            if start_offset > log.start_offset:
                committer.delete_records_before(replica, min(start_offset, log.end_offset))
        except (BrokerError, CorruptBatchError) as error:
            log_lines.warning("%s: what node %d sent can't be used: %s", replica, self._leader_id, error)
            replica.is_busy = True
            committer.after_commit(None).on_done(lambda _: self._delay(replica))  # a part of it may be in the log
            return False
        replica.refusals = 0
        replica.heard(data.high_watermark)
        if data.records:
            replica.is_busy = True
            return True
        return False

    def _require_room(self) -> None:
        room = self._node.room
        if room.is_full and room.look():
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    def _committed(self, appended: list[Replica], done: Deferred[Any]) -> None:
        self._committing -= 1
        for replica in appended:
            if self._is_current(replica):
                replica.is_busy = False
                self._to_name[replica] = None
        if done.error is not None:
            self._pause()  # the logs are back at what is durable; the disk may have room again later
        self._go_on()

    def _obey(self, replica: Replica, data: PartitionData, decision: Decision) -> None:
        if isinstance(decision, Truncate):
            self._truncate(replica, decision.offset)
        elif isinstance(decision, Restart):
            self._restart(replica, decision.offset)
        else:
            if data.error_code not in EXPECTED:
                log_lines.warning("%s: node %d refuses: %s", replica, self._leader_id, ErrorCode(data.error_code).name)
            self._delay(replica)

    def _truncate(self, replica: Replica, offset: int) -> None:
        log = replica.log
        if offset < replica.high_watermark:
            log_lines.warning("%s: the leader has less than was committed, as far as known here", replica)
        log_lines.info("%s: cut at %d, was %d", replica, offset, log.end_offset)
        replica.is_busy = True

        def apply() -> None:
            replica.cut(log.truncate_to(offset))
            self._ready(replica)

        self._node.committer.cut(Kind.TRUNCATE, log, offset, apply)

    def _restart(self, replica: Replica, offset: int) -> None:
        log = replica.log
        log_lines.info("%s: emptied, goes on at %d", replica, offset)
        replica.is_busy = True

        def apply() -> None:
            log.truncate_fully_and_start_at(offset)
            replica.cut(offset)
            self._ready(replica)

        self._node.committer.cut(Kind.RESTART, log, offset, apply)

    def _delay(self, replica: Replica) -> None:
        """Ask again in a while; the leader says no more of it until then."""
        replica.is_busy = True
        delay_ms = min(REFUSED_MS_MAX, REFUSED_MS_MIN << min(replica.refusals, 10))
        replica.refusals += 1
        self._node.timers.after_ms(delay_ms, lambda: self._ready(replica))


SESSION_LOST = frozenset((ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH))
EXPECTED = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""The leader has not heard yet what this node has, or the other way round."""
