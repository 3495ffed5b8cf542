"""The fetch session of a follower, on the leader's side."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.replication.followers import Follower
from ottla.replication.partition import Partition
from ottla.replication.replica_sessions import ReplicaSession
from tests.replication.cluster import TOPIC_ID, Replicas

FOLLOWER = 2


class Leader:
    """A leader of some partitions, each with one other replica."""

    def __init__(self, count: int) -> None:
        self.partitions = {index: Replicas(2) for index in range(count)}
        self.session = ReplicaSession(
            7, FOLLOWER, 1, on_urgent=self._urgent, on_news=lambda _: None, on_allowance=lambda _: None
        )
        self.urgent = 0
        self.looked_up: list[int] = []
        self.caught_up: list[Follower] = []
        self.gone: set[int] = set()

    def _urgent(self, _: ReplicaSession) -> None:
        self.urgent += 1

    def find(self, _: bytes, index: int) -> Partition:
        self.looked_up.append(index)
        if index in self.gone:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.partitions[index].leader

    def hear(self, offsets: dict[int, int], *, forgotten: tuple[int, ...] = (), epoch: int = 1) -> None:
        named = [
            FetchPartition(
                partition=index,
                current_leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=1 if offset else -1,
                partition_max_bytes=1 << 20,
            )
            for index, offset in offsets.items()
        ]
        request = FetchRequest(
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=named)],
            forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=forgotten)],
        )
        self.session.hear(request, self.find, lambda _, follower: self.caught_up.append(follower), 1_000)

    def told(self, max_bytes: int = 1 << 20) -> dict[int, PartitionData]:
        answer = self.session.answer(max_bytes, self.find, 1_000)
        return {data.partition_index: data for topic in answer for data in topic.partitions}


@pytest.fixture
def leader() -> Leader:
    leader = Leader(3)
    leader.hear({0: 0, 1: 0, 2: 0})
    assert set(leader.told()) == {0, 1, 2}, "the first answer says what is known of each"
    leader.urgent = 0
    return leader


def test_what_has_no_news_is_not_told(leader: Leader) -> None:
    leader.hear({})
    assert leader.told() == {}


def test_an_append_is_urgent_and_told_alone(leader: Leader) -> None:
    leader.looked_up.clear()
    leader.partitions[1].produce(b"a")
    assert leader.urgent == 1
    leader.hear({})
    assert {index: bool(data.records) for index, data in leader.told().items()} == {1: True}
    assert leader.looked_up == []


def test_what_was_sent_is_not_sent_again_before_it_is_named(leader: Leader) -> None:
    leader.partitions[1].produce(b"a")
    leader.told()
    leader.partitions[1].produce(b"b")
    leader.hear({})
    assert leader.told() == {}
    leader.hear({1: 1})
    assert leader.session.is_urgent
    assert leader.told()[1].records


def test_a_high_watermark_is_news_but_not_urgent(leader: Leader) -> None:
    leader.partitions[1].produce(b"a")
    leader.told()
    leader.urgent = 0
    leader.hear({1: 1})
    assert leader.urgent == 0
    assert leader.told()[1].high_watermark == 1
    leader.hear({1: 1})
    assert leader.told() == {}


def test_what_does_not_fit_comes_first_next_time(leader: Leader) -> None:
    for index in (0, 1, 2):
        leader.partitions[index].produce(b"x" * 1_000)
    leader.hear({})
    first = leader.told(max_bytes=100)
    assert len([data for data in first.values() if data.records]) == 1
    assert leader.session.is_urgent
    second = leader.told(max_bytes=100)
    assert [index for index, data in second.items() if data.records] == [1]


def test_what_is_forgotten_is_told_no_more(leader: Leader) -> None:
    leader.hear({}, forgotten=(1,))
    leader.partitions[1].produce(b"a")
    assert leader.told() == {}
    assert leader.partitions[1].leader.followers[FOLLOWER].place is None


def test_the_end_of_a_leadership_is_told_at_once(leader: Leader) -> None:
    leader.gone.add(1)
    leader.partitions[1].leader.end()
    assert leader.urgent == 1
    assert leader.told()[1].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.hear({})
    assert leader.told() == {}, "once is enough"


@pytest.mark.parametrize(("epoch", "code"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_one_that_knows_another_leader_is_refused(leader: Leader, epoch: int, code: ErrorCode) -> None:
    leader.hear({1: 0}, epoch=epoch)
    assert leader.told()[1].error_code == code


def test_a_node_that_is_no_replica_is_refused() -> None:
    leader = Leader(1)
    leader.session.replica_id = 9
    leader.hear({0: 0})
    assert leader.told()[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_one_beyond_the_end_does_not_count(leader: Leader) -> None:
    leader.hear({1: 0})
    leader.partitions[1].produce(b"a")
    request = FetchPartition(partition=1, current_leader_epoch=1, fetch_offset=9, partition_max_bytes=1 << 20)
    leader.session.hear(
        FetchRequest(topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[request])]), leader.find, lambda *_: None, 1_000
    )
    assert leader.partitions[1].leader.high_watermark == 0
    assert leader.told()[1].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# The short way: news of one partition, told without a message.


def test_news_of_one_partition_are_the_same_in_short(leader: Leader) -> None:
    leader.partitions[1].produce(b"a")
    twin = Leader(3)
    twin.hear({0: 0, 1: 0, 2: 0})
    twin.told()
    twin.partitions[1].produce(b"a")

    one, data = leader.session.answer_one(1 << 20, 1_000), twin.told()[1]
    assert one is not None
    assert (one.session_id, one.topic_id, one.index) == (7, TOPIC_ID, 1)
    assert (one.records, one.high_watermark, one.start_offset) == (
        data.records,
        data.high_watermark,
        data.log_start_offset,
    )
    assert not leader.session.is_urgent
    assert leader.told() == {}, "it counts as told"


def test_a_place_that_is_known_is_heard_without_a_message(leader: Leader) -> None:
    leader.partitions[1].produce(b"a")
    leader.told()
    place = leader.session.places[TOPIC_ID, 1]
    place.is_at(1, 1, 1, 1 << 20)
    leader.session.hear_one(place, leader.find, lambda *_: None, 2_000)
    assert leader.partitions[1].leader.high_watermark == 1
    assert leader.session.last_request_ms == 2_000


def test_news_of_several_are_not_told_in_short(leader: Leader) -> None:
    for index in (1, 2):
        leader.partitions[index].produce(b"a")
    assert leader.session.answer_one(1 << 20, 1_000) is None
    assert leader.session.is_urgent
    assert set(leader.told()) == {1, 2}


def test_the_end_of_a_leadership_is_not_told_in_short(leader: Leader) -> None:
    leader.partitions[1].leader.end()
    leader.gone.add(1)
    assert leader.session.answer_one(1 << 20, 1_000) is None
    assert leader.told()[1].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_one_whose_log_is_another_is_not_answered_in_short(leader: Leader) -> None:
    place = leader.session.places[TOPIC_ID, 1]
    place.is_at(5, 1, 1, 1 << 20)
    leader.session.hear_one(place, leader.find, lambda *_: None, 2_000)
    assert leader.session.answer_one(1 << 20, 1_000) is None
    assert leader.session.is_urgent
    told = leader.told()[1]
    assert told.error_code or told.diverging_epoch.epoch >= 0


def test_one_that_is_not_in_sync_is_not_answered_in_short(leader: Leader) -> None:
    leader.partitions[1].produce(b"a")
    leader.partitions[1].leader.commit_isr((leader.partitions[1].leader.node_id,), 100)
    assert leader.session.answer_one(1 << 20, 1_000) is None
    assert leader.told()[1].records
