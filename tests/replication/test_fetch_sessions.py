import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, SESSIONLESS, FetchPlan, FetchSessions
from ottla.types import NO_TOPIC_ID


def sessions(slots_max: int = 10, evict_after_ms: int = 1_000) -> FetchSessions:
    ids = iter(range(100, 10_000))
    return FetchSessions(slots_max=slots_max, evict_after_ms=evict_after_ms, new_id=lambda: next(ids))


def request(
    *offsets: tuple[int, int], session_id: int = 0, epoch: int = INITIAL_EPOCH, forget: list[int] | None = None
) -> FetchRequest:
    partitions = [FetchPartition(partition=index, fetch_offset=offset) for index, offset in offsets]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=forget)] if forget else [],
    )


def positions(plan: FetchPlan) -> dict[int, int]:
    return {wanted.index: wanted.fetch_offset for wanted in plan.wanted}


def test_a_full_fetch_opens_a_session() -> None:
    plan = sessions().plan(request((0, 5), (1, 6)), now_ms=0)

    assert plan.session_id != SESSIONLESS
    assert not plan.incremental
    assert positions(plan) == {0: 5, 1: 6}


def test_an_incremental_fetch_names_only_what_changed() -> None:
    cache = sessions()
    session_id = cache.plan(request((0, 5), (1, 6)), now_ms=0).session_id

    plan = cache.plan(request((1, 9), session_id=session_id, epoch=1), now_ms=1)

    assert plan.incremental
    assert positions(plan) == {0: 5, 1: 9}


def test_partitions_can_be_forgotten_and_added() -> None:
    cache = sessions()
    session_id = cache.plan(request((0, 5), (1, 6)), now_ms=0).session_id

    plan = cache.plan(request((2, 0), session_id=session_id, epoch=1, forget=[0]), now_ms=1)

    assert positions(plan) == {1: 6, 2: 0}


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(BrokerError) as refused:
        sessions().plan(request(session_id=7, epoch=1), now_ms=0)
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_epoch_out_of_turn_is_refused() -> None:
    cache = sessions()
    session_id = cache.plan(request((0, 0)), now_ms=0).session_id

    with pytest.raises(BrokerError) as refused:
        cache.plan(request(session_id=session_id, epoch=2), now_ms=0)
    assert refused.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_final_epoch_closes_the_session() -> None:
    cache = sessions()
    session_id = cache.plan(request((0, 0)), now_ms=0).session_id

    plan = cache.plan(request((0, 3), session_id=session_id, epoch=FINAL_EPOCH), now_ms=0)

    assert plan.session_id == SESSIONLESS
    assert positions(plan) == {0: 3}
    assert len(cache) == 0


def test_a_full_cache_serves_without_a_session_until_one_has_been_idle_for_long() -> None:
    cache = sessions(slots_max=1, evict_after_ms=1_000)
    first = cache.plan(request((0, 0)), now_ms=0).session_id

    assert cache.plan(request((0, 0)), now_ms=999).session_id == SESSIONLESS
    assert cache.plan(request((0, 0)), now_ms=1_000).session_id not in (SESSIONLESS, first)
    assert len(cache) == 1


def test_a_partition_that_was_served_goes_to_the_end_of_the_line() -> None:
    cache = sessions()
    plan = cache.plan(request((0, 0), (1, 0), (2, 0)), now_ms=0)
    assert plan.session is not None

    plan.session.served([("t", NO_TOPIC_ID, 0)])

    assert [key[2] for key in plan.session.wanted] == [1, 2, 0]
