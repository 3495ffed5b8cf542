"""The high watermark and those in sync, as a leader sees them."""

from ottla.errors import BrokerError, ErrorCode
from tests.replication.cluster import Replicas

LAG_MS = 10_000


def test_nothing_is_committed_before_every_in_sync_replica_has_it_on_disk() -> None:
    replicas = Replicas()
    replicas.copy(2)
    replicas.copy(3)
    replicas.produce(b"a")
    assert replicas.leader.high_watermark == 0
    replicas.copy(2, rounds=2)
    assert replicas.leader.high_watermark == 0
    replicas.copy(3)
    assert replicas.leader.high_watermark == 0, "it has it, but has not said so yet"
    replicas.copy(3)
    assert replicas.leader.high_watermark == 1


def test_what_the_leader_has_not_on_disk_is_neither_sent_nor_committed() -> None:
    replicas = Replicas(2)
    replicas.copy(2)
    replicas.append(b"a")
    replicas.copy(2, rounds=2)
    assert replicas.logs[2].end_offset == 0
    replicas.commit()
    replicas.copy(2, rounds=2)
    assert replicas.leader.high_watermark == 1


def test_a_follower_hears_of_the_high_watermark() -> None:
    replicas = Replicas(2)
    replicas.produce(b"a")
    replicas.copy(2, rounds=2)
    assert replicas.roles[2].high_watermark == 1


def test_one_that_was_removed_counts_until_that_is_committed() -> None:
    replicas = Replicas()
    replicas.produce(b"a")
    replicas.copy(2, rounds=2)
    replicas.leader.propose_isr((1, 2))
    assert replicas.leader.high_watermark == 0
    replicas.set_isr(1, 2)
    assert replicas.leader.high_watermark == 1


def test_one_that_was_proposed_counts_at_once() -> None:
    replicas = Replicas()
    replicas.set_isr(1, 2)
    replicas.copy(3)
    replicas.leader.propose_isr((1, 2, 3))
    replicas.produce(b"a")
    replicas.copy(2, rounds=2)
    assert replicas.leader.high_watermark == 0
    replicas.copy(3, rounds=2)
    assert replicas.leader.high_watermark == 1


def test_a_proposal_that_was_refused_no_longer_counts() -> None:
    replicas = Replicas()
    replicas.set_isr(1, 2)
    replicas.leader.propose_isr((1, 2, 3))
    replicas.produce(b"a")
    replicas.copy(2, rounds=2)
    assert replicas.leader.high_watermark == 0
    replicas.leader.propose_isr(None)
    assert replicas.leader.high_watermark == 1


def test_a_follower_that_has_caught_up_is_proposed() -> None:
    replicas = Replicas()
    replicas.set_isr(1, 2)
    replicas.produce(b"a")
    replicas.copy(2, rounds=2)
    replicas.copy(3)
    assert replicas.caught_up == []
    replicas.copy(3)
    assert replicas.caught_up == [3]


def test_the_high_watermark_waits_for_one_that_is_about_to_be_in_sync() -> None:
    replicas = Replicas()
    replicas.set_isr(1, 2)
    replicas.produce(b"a")
    replicas.copy(3, rounds=2)
    replicas.produce(b"b")
    replicas.copy(2, rounds=2)
    assert replicas.leader.high_watermark == 1


def test_nothing_waits_for_one_that_is_stopping() -> None:
    """It fetches to its last moment, and has left the in-sync replicas before."""
    replicas = Replicas()
    replicas.stopping.add(3)
    replicas.set_isr(1, 2)
    replicas.produce(b"a")
    replicas.copy(3, rounds=2)
    replicas.produce(b"b")
    replicas.copy(2, rounds=2)
    assert replicas.leader.high_watermark == 2


def test_nothing_goes_on_waiting_for_one_that_begins_to_stop() -> None:
    replicas = Replicas()
    replicas.set_isr(1, 2)
    replicas.produce(b"a")
    replicas.copy(3, rounds=2)
    replicas.produce(b"b")
    replicas.copy(2, rounds=2)
    replicas.stopping.add(3)
    replicas.leader.look_who_joins()
    assert replicas.leader.high_watermark == 2


def test_one_that_has_not_reached_the_leaders_epoch_is_not_proposed() -> None:
    """There may be committed records between the new leader's high watermark and the end of its log."""
    replicas = Replicas()
    replicas.copy(2)
    replicas.copy(3)
    replicas.set_isr(1, 2)
    replicas.produce(b"a")
    replicas.copy(2, rounds=2)
    assert replicas.leader.high_watermark == 1
    replicas.elect(2)
    assert replicas.leader.high_watermark <= 1
    data = replicas.fetch(3)
    assert data is not None
    assert data.records
    assert 3 not in replicas.caught_up


def test_under_the_minimum_in_sync_the_high_watermark_stands_still() -> None:
    replicas = Replicas(min_insync_replicas=2)
    replicas.set_isr(1)
    replicas.produce(b"a")
    assert not replicas.leader.is_safe
    assert replicas.leader.high_watermark == 0
    replicas.copy(2, rounds=2)
    replicas.set_isr(1, 2)
    assert replicas.leader.high_watermark == 1


def test_a_topic_can_not_demand_more_copies_than_it_has() -> None:
    replicas = Replicas(1, min_insync_replicas=2)
    replicas.produce(b"a")
    assert replicas.leader.high_watermark == 1


def test_a_follower_that_is_behind_for_long_lags() -> None:
    replicas = Replicas(2)
    replicas.copy(2)
    replicas.produce(b"a")
    replicas.now_ms += LAG_MS
    assert replicas.leader.lagging(replicas.now_ms, LAG_MS) == []
    replicas.now_ms += 1
    assert replicas.leader.lagging(replicas.now_ms, LAG_MS) == [2]


def test_one_that_fetches_but_never_catches_up_lags() -> None:
    replicas = Replicas(2)
    replicas.copy(2)
    for _ in range(3):
        replicas.produce(b"x" * 100)
        replicas.produce(b"x" * 100)
        replicas.take(2, replicas.fetch(2, max_bytes=1))
        replicas.commit(2)
        replicas.now_ms += LAG_MS
    assert replicas.leader.lagging(replicas.now_ms, LAG_MS) == [2]


def test_one_that_has_what_there_was_when_it_last_fetched_does_not_lag() -> None:
    replicas = Replicas(2)
    replicas.copy(2)
    for _ in range(5):
        replicas.produce(b"x")
        replicas.copy(2)
        replicas.produce(b"x")
        replicas.now_ms += LAG_MS - 1
        replicas.copy(2)
        assert replicas.leader.lagging(replicas.now_ms, LAG_MS) == []


def test_an_idle_partition_is_in_sync_while_its_session_is_in_use() -> None:
    replicas = Replicas(2)
    replicas.copy(2)
    for _ in range(10):
        replicas.now_ms += LAG_MS
        replicas.sessions[2].last_request_ms = replicas.now_ms
    replicas.produce(b"x")
    replicas.now_ms += LAG_MS - 1
    assert replicas.leader.lagging(replicas.now_ms, LAG_MS) == []
    replicas.now_ms += 2
    assert replicas.leader.lagging(replicas.now_ms, LAG_MS) == [2]


def test_a_follower_that_never_came_lags() -> None:
    replicas = Replicas(2)
    replicas.now_ms += LAG_MS + 1
    assert replicas.leader.lagging(replicas.now_ms, LAG_MS) == [2]


def test_waiting_for_a_commit_ends_with_leadership() -> None:
    replicas = Replicas()
    replicas.produce(b"a")
    heard: list[BrokerError | None] = []
    leader = replicas.leader
    leader.when_committed(1, heard.append)
    replicas.elect(2)
    leader.when_committed(1, heard.append)
    assert [error and error.code for error in heard] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


def test_a_new_leader_settles_when_its_followers_have_come() -> None:
    replicas = Replicas()
    replicas.produce(b"a")
    replicas.copy(2, rounds=2)
    replicas.copy(3, rounds=2)
    replicas.elect(2)
    assert not replicas.leader.is_settled
    replicas.copy(1)
    replicas.copy(3)
    assert replicas.leader.is_settled
    assert replicas.leader.high_watermark == 1


def test_a_request_of_an_earlier_life_of_a_follower_says_nothing() -> None:
    replicas = Replicas(2)
    replicas.copy(2)
    follower = replicas.leader.followers[2]
    replicas.produce(b"a")
    replicas.copy(2)
    follower.fetched(5, 0, replicas.now_ms)
    replicas.fetch(2)
    assert (follower.broker_epoch, follower.end_offset) == (5, 0)
