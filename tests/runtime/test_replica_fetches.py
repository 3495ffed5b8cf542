"""When the fetches of followers are answered, and which of them go the short way."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.one_fetch import read_answer
from ottla.replication.partition import Partition
from ottla.runtime.outbox import Outbox
from ottla.runtime.replica_fetches import ReplicaFetches
from tests.replication.cluster import TOPIC_ID, Replicas

FOLLOWER, LIFE, SESSION = 2, 1, 7


class Rig:
    """One partition, led here, and a follower whose session has begun."""

    def __init__(self) -> None:
        self.replicas = Replicas(2)
        self.timers: list[Callable[[], None]] = []
        self.delays_ms: list[float] = []
        self.fetches = ReplicaFetches(
            find=self._find,
            on_caught_up=lambda *_: None,
            clock=cast(Any, SimpleNamespace(monotonic_ms=lambda: 1_030)),
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
