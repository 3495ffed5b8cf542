"""The fetch session of a follower, on the leader's side: what costs nothing while nothing happens.

A follower names a partition when its position has changed, and is told of one when there is something to tell. So a
session knows, at any moment, the places with news; a fetch looks at these and at those it names, and at none of the
thousands that are idle. What a follower was sent it has to name again before it is sent more: then it has it on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import BrokerError, CorruptBatchError, ErrorCode
from ottla.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, PartitionData
from ottla.protocol.one_fetch import OneAnswer
from ottla.replication.catch_up import CatchUpLimit
from ottla.replication.readable import NO_EPOCH

if TYPE_CHECKING:
    from ottla.protocol.messages.fetch import FetchRequest
    from ottla.replication.followers import Follower
    from ottla.replication.partition import Partition
    from ottla.storage.log import Log
    from ottla.storage.pending import PendingWrite
    from ottla.types import TopicId

UNTOLD = -1
Key: TypeAlias = "tuple[TopicId, int]"
Find: TypeAlias = "Callable[[TopicId, int], Partition]"
"""The partition that this node leads; raises BrokerError if it does not."""
OnCaughtUp: TypeAlias = "Callable[[Partition, Follower], None]"


class Place:
    """One partition in a session."""

    __slots__ = (
        "current_epoch",
        "fetch_offset",
        "follower",
        "index",
        "is_sent",
        "last_epoch",
        "max_bytes",
        "session",
        "told_high_watermark",
        "told_start_offset",
        "topic_id",
    )

    def __init__(self, session: ReplicaSession, topic_id: TopicId, index: int) -> None:
        self.session = session
        self.topic_id = topic_id
        self.index = index
        self.follower: Follower | None = None
        """None while the partition is not led here, or not as the follower thinks."""
        self.fetch_offset = 0
        self.current_epoch = NO_EPOCH
        self.last_epoch = NO_EPOCH
        self.max_bytes = 0
        self.is_sent = False
        """It was sent something, and has not said yet that it has it."""
        self.told_high_watermark = UNTOLD
        self.told_start_offset = UNTOLD

    @property
    def last_request_ms(self) -> int:
        return self.session.last_request_ms

    @property
    def is_behind(self) -> bool:
        """Not in sync: nobody waits for what it gets."""
        follower = self.follower
        return follower is not None and follower.replica_id not in follower.partition.isr

    def follower_in_sync(self) -> Follower | None:
        """None if it is behind, or the partition is not led here as the follower thinks."""
        follower = self.follower
        if follower is None or self.is_behind:
            return None
        partition = follower.partition
        return None if partition.has_ended or self.current_epoch != partition.leader_epoch else follower

    def has_data(self) -> None:
        if not self.is_sent:
            session = self.session
            if self.follower is not None and self not in session.news:
                self.follower.was_caught_up_until(session.last_request_ms)
            self.tell_at_once()

    def tell_at_once(self) -> None:
        session = self.session
        session.news[self] = None
        if not session.is_urgent:
            session.is_urgent = True
            session.on_urgent(session)

    def has_news(self) -> None:
        """Told along with the next records if they come soon: no writer waits for it."""
        if not self.is_sent:
            session = self.session
            session.news[self] = None
            session.on_news(session)

    def lost(self) -> None:
        self.follower = None
        self.is_sent = False
        self.tell_at_once()

    def is_at(self, fetch_offset: int, current_epoch: int, last_epoch: int, max_bytes: int) -> None:
        """By its name in a request."""
        self.fetch_offset = fetch_offset
        self.current_epoch = current_epoch
        self.last_epoch = last_epoch
        self.max_bytes = max_bytes
        self.is_sent = False


class Answer:
    """What one fetch is told, while it is put together."""

    __slots__ = ("has_no_records", "left_bytes", "topics")

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes
        self.has_no_records = True
        self.topics: dict[TopicId, list[PartitionData]] = {}

    def add(self, place: Place, data: PartitionData) -> None:
        size = len(data.records or b"")
        self.left_bytes -= size
        self.has_no_records &= not size
        self.topics.setdefault(place.topic_id, []).append(data)


class ReplicaSession:
    __slots__ = (
        "_catch_up",
        "_on_allowance",
        "epoch",
        "id",
        "is_urgent",
        "last_request_ms",
        "news",
        "on_news",
        "on_urgent",
        "places",
        "replica_epoch",
        "replica_id",
    )

    def __init__(
        self,
        session_id: int,
        replica_id: int,
        replica_epoch: int,
        *,
        on_urgent: Callable[[ReplicaSession], None],
        on_news: Callable[[ReplicaSession], None],
        on_allowance: Callable[[ReplicaSession], None],
        catch_up: CatchUpLimit | None = None,
    ) -> None:
        self.id = session_id
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.epoch = 1
        """Of the next request."""
        self.last_request_ms = 0
        self.places: dict[Key, Place] = {}
        self.news: dict[Place, None] = {}
        """Places with something to tell, those that have waited longest first."""
        self.is_urgent = False
        """Whether some of the news can't wait."""
        self._catch_up = catch_up or CatchUpLimit()
        self.on_urgent = on_urgent
        self.on_news = on_news
        self._on_allowance = on_allowance

    # What a request says.

    def hear(self, request: FetchRequest, find: Find, on_caught_up: OnCaughtUp, now_ms: int) -> None:
        self.last_request_ms = now_ms
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                self._forget(self.places.pop((topic.topic_id, index), None))
        for topic_asked in request.topics:
            topic_id = topic_asked.topic_id
            for partition in topic_asked.partitions:
                key = (topic_id, partition.partition)
                place = self.places.get(key)
                if place is None:
                    place = self.places[key] = Place(self, topic_id, partition.partition)
                place.is_at(
                    partition.fetch_offset,
                    partition.current_leader_epoch,
                    partition.last_fetched_epoch,
                    partition.partition_max_bytes,
                )
                self._named(place, find, on_caught_up, now_ms)

    def hear_one(self, place: Place, find: Find, on_caught_up: OnCaughtUp, now_ms: int) -> None:
        """A request names one place that is known, which has taken note of it."""
        self.last_request_ms = now_ms
        self._named(place, find, on_caught_up, now_ms)

    def _forget(self, place: Place | None) -> None:
        if place is not None:
            self.news.pop(place, None)
            follower = place.follower
            if follower is not None and follower.place is place:
                follower.leave()

    def close(self) -> None:
        """Another session takes its place, or its follower is gone."""
        for place in self.places.values():
            self._forget(place)

    def _named(self, place: Place, find: Find, on_caught_up: OnCaughtUp, now_ms: int) -> None:
        """Take note of a position. What is wrong with it is found again, and told, by the answer."""
        try:
            follower = self._follower(place, find)
            partition = follower.partition
            if divergence(partition.log, place.last_epoch, place.fetch_offset) is not None:
                follower.diverged()
                raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if place.fetch_offset > partition.log.end_offset:
                raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if partition.follower_fetched(follower, self.replica_epoch, place.fetch_offset, now_ms):
                on_caught_up(partition, follower)
        except BrokerError:
            place.tell_at_once()
            return
        log = partition.log
        if place.fetch_offset != log.durable_offset:
            place.tell_at_once()
        elif partition.high_watermark != place.told_high_watermark or log.start_offset != place.told_start_offset:
            place.has_news()
        else:
            self.news.pop(place, None)

    def _follower(self, place: Place, find: Find) -> Follower:
        follower = place.follower
        if follower is None or follower.partition.has_ended:
            partition = find(place.topic_id, place.index)
            partition.check_epoch(place.current_epoch)
            found = partition.followers.get(self.replica_id)
            if found is None:
                raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, "no replica of the partition is known there")
            place.follower = follower = found
            found.place = place
        else:
            follower.partition.check_epoch(place.current_epoch)
        return follower

    # What it is told.

    def answer(self, max_bytes: int, find: Find, now_ms: int) -> list[FetchableTopicResponse]:
        """All that is new, as far as it fits; what does not is urgent still. Those in sync come first."""
        news, self.news = self.news, {}
        self.is_urgent = False
        answer = Answer(max_bytes)
        behind = [place for place in news if place.is_behind]
        if not behind:
            self._tell_all(news, answer, find, now_ms)
        else:
            self._tell_all([place for place in news if not place.is_behind], answer, find, now_ms)
            self._tell_behind(behind, answer, find, now_ms)
        return [FetchableTopicResponse(topic_id=topic_id, partitions=told) for topic_id, told in answer.topics.items()]

    def answer_one(self, max_bytes: int, now_ms: int) -> OneAnswer | None:
        """All that is new, if that is of one partition that is in sync and has nothing wrong; else None, and it is
        still to be told."""
        if len(self.news) != 1:
            return None
        (place,) = self.news
        follower = place.follower_in_sync()
        if follower is None:
            return None
        partition = follower.partition
        log, offset = partition.log, place.fetch_offset
        if offset < log.start_offset:
            return None
        was_urgent, self.news, self.is_urgent = self.is_urgent, {}, False
        try:
            if divergence(log, place.last_epoch, offset) is None:
                records = self._records(place, follower, offset, max_bytes, is_first=True, now_ms=now_ms)
                high_watermark, start_offset = partition.high_watermark, log.start_offset
                return OneAnswer(self.id, place.topic_id, place.index, high_watermark, start_offset, records)
        except (BrokerError, CorruptBatchError):
            pass  # the long way finds it again, and says what it is
        self.news, self.is_urgent = {place: None}, was_urgent
        return None

    def answer_written(self, place: Place, share: PendingWrite, max_bytes: int, now_ms: int) -> OneAnswer | None:
        """A share that begins where a place in sync ends, if there is no other news that is urgent; else None."""
        follower, offset = place.follower_in_sync(), place.fetch_offset
        if (
            follower is None
            or place.is_sent
            or self.is_urgent
            or offset != share.base_offset
            or share.size_bytes > min(place.max_bytes, max_bytes)
        ):
            return None
        partition = follower.partition
        log = partition.log
        try:
            if divergence(log, place.last_epoch, offset) is not None:
                return None
        except BrokerError:
            return None
        self.news.pop(place, None)
        place.is_sent = True
        follower.was_caught_up_until(self.last_request_ms)
        follower.sent(share.end_offset, now_ms)
        place.told_high_watermark, place.told_start_offset = partition.high_watermark, log.start_offset
        return OneAnswer(
            self.id, place.topic_id, place.index, partition.high_watermark, log.start_offset, b"".join(share.buffers)
        )

    def _tell_behind(self, places: list[Place], answer: Answer, find: Find, now_ms: int) -> None:
        allowed_bytes = self._catch_up.left(now_ms)
        if allowed_bytes <= 0:
            self.news.update(dict.fromkeys(places))
            self._on_allowance(self)  # in a while more is allowed
            return
        before = answer.left_bytes = min(answer.left_bytes, allowed_bytes)
        self._tell_all(places, answer, find, now_ms)
        self._catch_up.sent(before - answer.left_bytes)

    def _tell_all(self, places: Iterable[Place], answer: Answer, find: Find, now_ms: int) -> None:
        for place in places:
            if answer.left_bytes <= 0 and not answer.has_no_records:
                self.news[place] = None
                self.is_urgent = True
            else:
                answer.add(place, self._tell(place, answer.left_bytes, answer.has_no_records, find, now_ms))

    def _tell(self, place: Place, left_bytes: int, is_first: bool, find: Find, now_ms: int) -> PartitionData:
        try:
            follower = self._follower(place, find)
            return self._read(place, follower, left_bytes, is_first, now_ms)
        except BrokerError as error:
            code = error.code
        except CorruptBatchError:
            code = ErrorCode.CORRUPT_MESSAGE
        start_offset = UNTOLD
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and place.follower is not None:
            start_offset = first_batch_offset(place.follower.partition.log)
        place.is_sent = True
        return PartitionData(
            partition_index=place.index,
            error_code=code,
            high_watermark=-1,
            log_start_offset=start_offset,
            aborted_transactions=None,
            records=b"",
        )

    def _read(self, place: Place, follower: Follower, left_bytes: int, is_first: bool, now_ms: int) -> PartitionData:
        partition, offset = follower.partition, place.fetch_offset
        log = partition.log
        diverging = divergence(log, place.last_epoch, offset)
        if diverging is not None:
            place.is_sent = True
            return PartitionData(
                partition_index=place.index,
                high_watermark=partition.high_watermark,
                log_start_offset=log.start_offset,
                diverging_epoch=diverging,
                aborted_transactions=None,
                records=b"",
            )
        if offset < log.start_offset and offset == first_batch_offset(log):
            offset = log.start_offset  # which lies within the batch that it asks for
        records = self._records(place, follower, offset, left_bytes, is_first=is_first, now_ms=now_ms)
        return PartitionData(
            partition_index=place.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=-1,
            log_start_offset=log.start_offset,
            aborted_transactions=None,
            records=records,
        )

    def _records(
        self, place: Place, follower: Follower, offset: int, left_bytes: int, *, is_first: bool, now_ms: int
    ) -> bytes:
        """What is durable from `offset` on, as far as there is room; it and the high watermark count as told."""
        partition = follower.partition
        log = partition.log
        durable = log.durable_offset
        records = log.read(offset, min(place.max_bytes, left_bytes), upto_offset=durable, min_one_batch=is_first)
        if records:
            place.is_sent = True
            follower.sent(durable, now_ms)
        elif offset < durable:
            self.news[place] = None  # there was no room for it
            self.is_urgent = True
        place.told_high_watermark = partition.high_watermark
        place.told_start_offset = log.start_offset
        return records


def divergence(log: Log, last_epoch: int, offset: int) -> EpochEndOffset | None:
    """Where a log that ends at `offset` with a record of `last_epoch` may still agree with ours; None if it does."""
    if last_epoch == NO_EPOCH:
        return None
    epoch, end_offset = log.end_offset_for_epoch(last_epoch)
    if epoch == NO_EPOCH:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of epoch {last_epoch} here")
    if epoch < last_epoch or end_offset < offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def first_batch_offset(log: Log) -> int:
    """Where the batch begins that holds the first offset of the log: a follower's log has to begin there."""
    first = log.read(log.start_offset, 1, upto_offset=log.durable_offset, min_one_batch=True)
    return int.from_bytes(first[:8]) if first else log.start_offset
