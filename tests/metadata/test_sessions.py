import pytest

from ottla.config import BrokerConfig, ClusterConfig
from ottla.metadata.sessions import Sessions

SESSION_MS, LEASE_MS, HEARTBEAT_MS = 6_000, 1_200, 500


def sessions_of(*broker_ids: int) -> Sessions:
    sessions = Sessions(
        BrokerConfig(
            cluster=ClusterConfig(
                broker_session_timeout_ms=SESSION_MS,
                broker_lease_ms=LEASE_MS,
                broker_heartbeat_interval_ms=HEARTBEAT_MS,
            )
        )
    )
    sessions.begin(broker_ids, 0, offset=5)
    return sessions


def lapsed_at(sessions: Sessions, until_ms: int, *, step_ms: int = 100, alive: tuple[int, ...] = ()) -> list[int]:
    """Look until then as a controller does, with some brokers that go on being heard from; who has lapsed at last."""
    found: list[int] = []
    for now_ms in range(step_ms, until_ms + 1, step_ms):
        for broker_id in alive:
            sessions.heard(broker_id, now_ms, 0)
        found = sessions.lapsed(now_ms)
    return found


def test_a_broker_has_its_session_to_be_heard_from() -> None:
    assert lapsed_at(sessions_of(1, 2), SESSION_MS - 100, alive=(1,)) == []
    assert lapsed_at(sessions_of(1, 2), SESSION_MS, alive=(1,)) == [2]


def test_a_suspect_has_the_lease_only() -> None:
    sessions = sessions_of()
    sessions.heard(2, 0, 0)
    sessions.suspect([2])
    assert lapsed_at(sessions, LEASE_MS - 100) == []
    assert lapsed_at(sessions, LEASE_MS) == [2]


def test_a_suspect_that_goes_on_being_heard_from_stays() -> None:
    sessions = sessions_of(2)
    sessions.suspect([2])
    assert lapsed_at(sessions, SESSION_MS, alive=(2,)) == []


def test_a_suspect_that_a_new_controller_never_heard_from_has_a_quarter_of_a_lease() -> None:
    sessions = sessions_of(1, 2)
    sessions.suspect([2])
    assert lapsed_at(sessions, LEASE_MS // 4 - 100) == []
    assert lapsed_at(sessions, LEASE_MS // 4) == [2]


def test_a_broker_whose_process_has_ended_has_no_time_at_all() -> None:
    sessions = sessions_of(1, 2)
    sessions.heard(2, 50, 0)
    sessions.suspect([2], ended=[2])
    assert sessions.next_look_ms() == 50
    assert not sessions.is_open(2, 50)
    assert sessions.lapsed(50) == [2]
    assert sessions.is_open(1, 50)


def test_a_broker_whose_process_had_ended_before_this_controller_began_has_none_either() -> None:
    sessions = sessions_of(1, 2)
    sessions.suspect([2], ended=[2])
    assert sessions.lapsed(0) == [2]


@pytest.mark.parametrize("how", ["heard", "registered"])
def test_a_broker_that_speaks_after_its_process_seemed_to_have_ended_has_the_lease(how: str) -> None:
    sessions = sessions_of(2)
    sessions.suspect([2], ended=[2])
    getattr(sessions, how)(2, 0, 9)
    assert lapsed_at(sessions, LEASE_MS - 100) == []
    assert lapsed_at(sessions, LEASE_MS) == [2]


def test_suspicion_that_ends_gives_the_whole_session_back() -> None:
    sessions = sessions_of(2)
    sessions.suspect([2])
    sessions.suspect([])
    assert lapsed_at(sessions, SESSION_MS - 100) == []


def test_a_controller_that_did_not_run_blames_nobody() -> None:
    sessions = sessions_of(1, 2)
    assert sessions.lapsed(500) == []
    assert sessions.lapsed(60_000) == [], "nobody looked for a minute"
    assert sessions.lapsed(60_000 + LEASE_MS - 1) == []


def test_it_looks_often_enough_to_notice_its_own_absence() -> None:
    sessions = sessions_of(1)
    assert sessions.next_look_ms() == HEARTBEAT_MS
    sessions.lapsed(HEARTBEAT_MS)
    assert sessions.next_look_ms() == 2 * HEARTBEAT_MS
    sessions.suspect([1])
    assert sessions.next_look_ms() == LEASE_MS // 4
    sessions.end(1)
    assert sessions.next_look_ms() is None


def test_looking_begins_with_the_first_session() -> None:
    config = BrokerConfig()
    sessions = Sessions(config)
    sessions.heard(1, 1_000_000, 0)
    assert sessions.next_look_ms() == 1_000_000 + config.cluster.broker_heartbeat_interval_ms
    assert sessions.is_open(1, 1_000_100)
    assert not sessions.is_open(1, 1_000_000 + SESSION_MS)
    assert not sessions.is_open(2, 1_000_000)


def test_the_slowest_of_some_brokers() -> None:
    sessions = sessions_of(1)
    assert sessions.lowest_offset([]) is None
    assert sessions.lowest_offset([1]) == -1, "not heard from yet"
    sessions.heard(1, 10, 7)
    sessions.heard(2, 10, 5)
    assert sessions.lowest_offset([1, 2]) == 5
    assert sessions.lowest_offset([1, 2, 3]) == -1


def test_caught_up_is_who_has_applied_its_registration() -> None:
    sessions = sessions_of()
    sessions.registered(1, 0, offset=10)
    assert not sessions.heard(1, 10, 9).is_caught_up
    assert sessions.heard(1, 20, 10).is_caught_up


def test_who_registered_before_this_controllers_time_has_caught_up_with_where_that_began() -> None:
    sessions = sessions_of(1)
    assert not sessions.heard(1, 10, 4).is_caught_up
    assert not sessions.heard(2, 10, -1).is_caught_up
    assert sessions.heard(1, 20, 5).is_caught_up
    assert sessions.heard(2, 20, 5).is_caught_up
