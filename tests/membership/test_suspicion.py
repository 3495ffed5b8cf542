import pytest

from ottla.config.membership import GossipConfig
from ottla.membership.suspicion import CALLS, Patience, Suspicion

CONFIG = GossipConfig(probe_interval_ms=200, suspicion_multiplier=15)


@pytest.mark.parametrize(("members", "min_ms"), [(2, 3_000), (10, 3_000), (100, 6_000), (1_000, 9_000)])
def test_the_wait_grows_with_the_logarithm_of_the_cluster(members: int, min_ms: int) -> None:
    patience = Patience.of(CONFIG, members)
    assert (patience.min_ms, patience.max_ms) == (min_ms, 3 * min_ms)


def test_every_confirmation_shortens_the_wait_the_first_one_most() -> None:
    patience = Patience.of(CONFIG, 10)
    waits = [patience.timeout_ms(confirmations) for confirmations in range(5)]
    assert waits == [9_000, 6_000, 4_245, 3_000, 3_000]


def test_a_cluster_of_two_waits_for_nobody_to_confirm() -> None:
    assert Suspicion(Patience.of(CONFIG, 2), accuser=1, now_ms=0).deadline_ms == 3_000


def test_in_a_cluster_of_three_one_confirmation_is_all_there_can_be() -> None:
    suspicion = Suspicion(Patience.of(CONFIG, 3), accuser=1, now_ms=100)
    assert suspicion.deadline_ms == 9_100
    assert suspicion.confirm(2)
    assert suspicion.deadline_ms == 3_100


def test_an_accuser_counts_once() -> None:
    suspicion = Suspicion(Patience.of(CONFIG, 10), accuser=1, now_ms=0)
    assert not suspicion.confirm(1)
    assert suspicion.confirm(2)
    assert not suspicion.confirm(2)
    assert suspicion.deadline_ms == 6_000


def test_confirmations_beyond_what_is_wanted_are_no_news() -> None:
    suspicion = Suspicion(Patience.of(CONFIG, 10), accuser=1, now_ms=0)
    assert [suspicion.confirm(accuser) for accuser in range(2, 7)] == [True, True, True, False, False]


def test_a_suspect_is_called_several_times_within_the_shortest_wait() -> None:
    suspicion = Suspicion(Patience.of(CONFIG, 10), accuser=1, now_ms=0)
    calls = 0
    while suspicion.call_ms < 3_000:
        calls += 1
        suspicion.called(suspicion.call_ms)
    assert calls == CALLS - 1
