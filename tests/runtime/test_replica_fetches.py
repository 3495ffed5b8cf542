"""When the fetches of followers are answered, and which of them go the short way."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.one_fetch import read_answer
from ottla.replication.partition import Partition
from ottla.replication.replica_sessions import Place
from ottla.runtime.outbox import Outbox
from ottla.runtime.replica_fetches import NEWS_MS, ReplicaFetches
from tests.replication.cluster import TOPIC_ID, Replicas

FOLLOWER, LIFE, SESSION = 2, 1, 7


class Rig:
    """One partition, led here, and a follower whose session has begun."""

    def __init__(self, nodes: int = 2) -> None:
        self.replicas = Replicas(nodes)
        self.now_ms = 1_030
        self.timers: list[Callable[[], None]] = []
        self.delays_ms: list[float] = []
        self.fetches = ReplicaFetches(
            find=self._find,
            on_caught_up=lambda *_: None,
            clock=cast(Any, SimpleNamespace(monotonic_ms=lambda: self.now_ms)),
            timers=cast(Any, self),
            outbox=Outbox(),
            new_session_id=lambda: SESSION,
        )
        named = FetchPartition(current_leader_epoch=1, partition_max_bytes=1 << 20)
        first = FetchRequest(session_epoch=0, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[named])])
        assert self.fetches.fetch(first, FOLLOWER, LIFE).done

    def _find(self, _topic_id: bytes, _index: int) -> Partition:
        return self.replicas.leader

    def after_ms(self, delay_ms: float, action: Callable[[], None]) -> Any:
        self.delays_ms.append(delay_ms)
        self.timers.append(action)
        return SimpleNamespace(cancel=lambda: None)

    def ask(self, offset: int, epoch: int, *, session: int = SESSION, index: int = 0, life: int = LIFE) -> Any:
        last_epoch = 1 if offset else -1
        asked = (500, 1 << 20, session, epoch, TOPIC_ID, index, 1, offset, last_epoch, 0, 1 << 20, FOLLOWER, life)
        return self.fetches.fetch_one(asked)


def test_a_short_fetch_waits_for_records_and_is_answered_in_bytes() -> None:
    rig = Rig()
    answer = rig.ask(0, 1)
    assert not answer.done
    rig.replicas.produce(b"a")
    rig.fetches.flush()
    one = read_answer(memoryview(answer.value), 0)
    assert one is not None
    assert (one.session_id, one.topic_id, one.index, one.high_watermark) == (SESSION, TOPIC_ID, 0, 0)
    assert one.records
    rig.ask(1, 2)
    assert rig.replicas.leader.high_watermark == 1, "the next one says that it is on disk"


def test_when_its_time_is_up_it_is_answered_with_what_there_is() -> None:
    rig = Rig()
    answer = rig.ask(0, 1)
    rig.timers[-1]()
    assert answer.done
    assert answer.value.responses == []


def test_a_long_wait_ends_on_a_beat_and_not_late() -> None:
    rig = Rig()
    rig.ask(0, 1)
    assert rig.delays_ms[-1] == 1_400 - 1_030


def test_the_next_fetch_ends_the_wait_of_the_last() -> None:
    rig = Rig()
    first = rig.ask(0, 1)
    second = rig.ask(0, 2)
    assert (first.done, second.done) == (True, False)


@pytest.mark.parametrize(
    "wrong", [{"session": 8}, {"epoch": 5}, {"index": 3}, {"life": 2}], ids=["session", "epoch", "place", "life"]
)
def test_what_is_not_known_goes_the_long_way_and_changes_nothing(wrong: dict[str, int]) -> None:
    rig = Rig()
    waiting = rig.ask(0, 1)
    assert rig.ask(**{"offset": 0, "epoch": 2, **wrong}) is None
    assert not waiting.done
    assert rig.ask(0, 2) is not None


class Written:
    """A leader that has written a record and not synced it; its follower waits behind the one before."""

    def __init__(self, nodes: int = 2) -> None:
        self.rig = Rig(nodes)
        self.rig.ask(0, 1)
        self.rig.replicas.produce(b"a")
        self.rig.fetches.flush()
        self.waiting = self.rig.ask(1, 2)
        assert not self.waiting.done
        self.rig.replicas.append(b"b")
        share = self.rig.replicas.leader.log.take_pending(1 << 20)
        assert share is not None
        self.share = share

    @property
    def leader(self) -> Partition:
        return self.rig.replicas.leader

    def send(self) -> None:
        self.rig.fetches.send_written(self.leader, self.share)

    def sync(self) -> None:
        log = self.leader.log
        log.finish_held(self.share)
        log.mark_durable(self.share.end_offset)
        self.leader.on_durable(self.share.size_bytes)
        self.rig.fetches.flush()


def test_a_follower_gets_what_is_written_and_it_counts_when_it_is_synced() -> None:
    written = Written()
    written.send()
    one = read_answer(memoryview(written.waiting.value), 0)
    assert one is not None
    assert bytes(one.records) == b"".join(written.share.buffers)
    assert one.high_watermark == written.leader.high_watermark == 1

    written.sync()
    assert written.leader.high_watermark == 1, "the follower has not said yet that it has it"
    following = written.rig.ask(2, 3)
    assert written.leader.high_watermark == 2
    assert not following.done, "it was sent once"


def test_a_follower_that_is_quicker_than_the_sync_does_not_make_it_count() -> None:
    written = Written()
    written.send()
    written.rig.ask(2, 3)
    assert written.leader.high_watermark == 1
    written.sync()
    assert written.leader.high_watermark == 2


def test_what_was_sent_before_the_sync_is_told_again_only_if_it_is_asked_for() -> None:
    written = Written()
    written.send()
    written.sync()
    again = written.rig.ask(1, 3)
    written.rig.fetches.flush()
    one = read_answer(memoryview(again.value), 0)
    assert one is not None
    assert bytes(one.records) == b"".join(written.share.buffers)


@pytest.mark.parametrize("why", ["nobody waits", "out of sync", "behind", "another epoch", "too large", "urgent"])
def test_whoever_can_not_take_it_gets_it_after_the_sync(why: str) -> None:
    written = Written()
    rig, session = written.rig, written.rig.fetches._sessions[FOLLOWER]
    (place,) = session.places.values()
    match why:
        case "nobody waits":
            rig.timers[-1]()
        case "out of sync":
            rig.replicas.set_isr(1)
        case "behind":
            place.fetch_offset = 0
        case "another epoch":
            place.current_epoch = 0
        case "too large":
            place.max_bytes = written.share.size_bytes - 1
        case "urgent":
            session.is_urgent = True
    before = written.waiting.value
    written.send()
    assert written.waiting.value is before
    assert written.waiting.done == (why == "nobody waits")


def test_other_news_that_can_wait_is_told_within_its_time_after_all() -> None:
    written = Written(nodes=3)  # the third has nothing yet, so that no high watermark moves
    session = written.rig.fetches._sessions[FOLLOWER]
    other = Place(session, TOPIC_ID, 1)
    other.has_news()
    written.send()
    assert written.waiting.done
    assert other in session.news

    written.sync()
    written.rig.now_ms += NEWS_MS
    for timer in tuple(written.rig.timers):
        timer()
    assert other in session.news, "nobody waited when its time was up"
    asked = len(written.rig.delays_ms)
    written.rig.ask(2, 3)
    assert NEWS_MS in written.rig.delays_ms[asked:]
