"""What followers that are behind may take."""

from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.replication.catch_up import ANSWER_BYTES_MAX, CatchUpLimit
from ottla.replication.replica_sessions import ReplicaSession
from tests.replication.cluster import TOPIC_ID, Replicas

MIB = 1 << 20


def test_without_a_limit_only_an_answer_is_bounded() -> None:
    limit = CatchUpLimit()
    for _ in range(3):
        assert limit.left(0) == ANSWER_BYTES_MAX
        limit.sent(ANSWER_BYTES_MAX)


def test_what_was_sent_is_earned_again_with_time() -> None:
    limit = CatchUpLimit(MIB)
    limit.sent(2 * MIB)
    assert limit.left(0) <= 0
    assert limit.left(1_000) <= 0
    assert limit.left(1_500) == MIB // 2


def test_what_is_not_used_is_not_saved_up() -> None:
    limit = CatchUpLimit(MIB)
    assert limit.left(1_000_000) == ANSWER_BYTES_MAX


def test_time_that_is_too_short_to_earn_a_byte_is_not_lost() -> None:
    limit = CatchUpLimit(100)
    limit.sent(ANSWER_BYTES_MAX)
    for now_ms in range(1, 101):
        left = limit.left(now_ms)
    assert left == 10


class Leader:
    """Of two partitions: the follower is in sync in the second only."""

    def __init__(self, bytes_per_s: int) -> None:
        self.partitions = [Replicas(2), Replicas(2)]
        self.partitions[0].set_isr(1)
        self.has_news = False
        self.session = ReplicaSession(
            1,
            2,
            1,
            on_urgent=lambda _: None,
            on_news=lambda _: None,
            on_allowance=self._note_news,
            catch_up=CatchUpLimit(bytes_per_s),
        )

    def _note_news(self, _: ReplicaSession) -> None:
        self.has_news = True

    def told(self, *offsets: int, now_ms: int = 0) -> dict[int, int]:
        """How many bytes of which partition, when it asks from there."""
        named = [
            FetchPartition(
                partition=index,
                current_leader_epoch=1,
                fetch_offset=offset,
                last_fetched_epoch=1 if offset else -1,
                partition_max_bytes=MIB,
            )
            for index, offset in enumerate(offsets)
        ]
        request = FetchRequest(topics=[FetchTopic(topic_id=TOPIC_ID, partitions=named)])
        self.session.hear(request, lambda _, index: self.partitions[index].leader, lambda *_: None, now_ms)
        answer = self.session.answer(10 * MIB, lambda _, index: self.partitions[index].leader, now_ms)
        return {data.partition_index: len(data.records or b"") for topic in answer for data in topic.partitions}


def test_those_in_sync_come_first() -> None:
    leader = Leader(MIB)
    for partition in leader.partitions:
        partition.produce(b"x" * 1_000)
    assert list(leader.told(0, 0)) == [1, 0]


def test_at_the_limit_those_behind_wait_and_those_in_sync_do_not() -> None:
    leader = Leader(100_000)
    for partition in leader.partitions:
        for _ in range(20):
            partition.produce(b"x" * 100_000)
    assert leader.told(0, 0).keys() == {0, 1}
    sent = leader.told(10, 10)
    assert sent.get(0, 0) == 0
    assert sent[1] > 0
    assert leader.has_news
    assert not leader.session.is_urgent
    assert leader.told(10, 20, now_ms=60_000)[0] > 0
