"""Whole clusters from seeds, up to a hundred nodes. `tests.membership.measure` prints the figures of longer runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations

import pytest

from ottla.config.membership import GossipConfig
from ottla.membership import Change, Load, MemberChanged, Status
from ottla.membership.suspicion import Patience
from tests.membership.checkers import always, everybody_agrees, no_false_failures, the_dead_are_missed
from tests.membership.simulation import STORM, Simulation, Weather, formed, suspicious_sleeper

CONFIG = GossipConfig()
LONG = pytest.mark.long
SIZES_AND_SEEDS = [(size, seed) for size, count in ((3, 8), (10, 6), (30, 2), (100, 1)) for seed in range(count)]
WIRED = Weather(delay_ms=(0, 2))
FAR = Weather(delay_ms=(5, 40), loss=0.01, duplication=0.01)


def failed_within_ms(size: int) -> int:
    """Suspected within a second, the longest wait (nobody confirms), and a moment for the news."""
    return 1_000 + Patience.of(CONFIG, size).max_ms + 1_000


# Death


@pytest.mark.parametrize("weather", [WIRED, FAR], ids=["near", "far"])
@pytest.mark.parametrize(("size", "seed"), SIZES_AND_SEEDS)
def test_a_dead_member_is_suspected_within_a_second_and_fails_in_bounded_time(
    size: int, seed: int, weather: Weather
) -> None:
    simulation = formed(seed, size, weather)
    simulation.run(simulation.random.randint(0, 2_000))
    victim = simulation.random.randrange(size)
    simulation.crash(victim)
    simulation.run(failed_within_ms(size))
    assert list(the_dead_are_missed(simulation, victim, failed_within_ms(size))) == []
    assert [*no_false_failures(simulation), *always(simulation)] == []


@pytest.mark.parametrize("seed", range(5))
def test_in_a_storm_too_everybody_comes_to_know_that_a_member_is_dead(seed: int) -> None:
    simulation = formed(seed, 10, STORM)
    simulation.crash(4)
    simulation.run(failed_within_ms(10) + 10_000)
    assert set(simulation.times(Change.FAILED, 4)) == set(simulation.up)
    assert [*no_false_failures(simulation), *always(simulation)] == []


@pytest.mark.parametrize("size", [30, pytest.param(100, marks=LONG)])
def test_a_third_of_a_cluster_dies_one_after_the_other(size: int) -> None:
    simulation = formed(1, size)
    for victim in simulation.random.sample(range(size), size // 3):
        simulation.crash(victim)
        simulation.run(200)
    simulation.run(failed_within_ms(size))
    assert simulation.is_converged()
    assert [*no_false_failures(simulation), *always(simulation)] == []


# False alarm


@pytest.mark.parametrize(
    ("size", "seconds"), [(2, 600), (3, 300), (10, 120), (30, 20), pytest.param(100, 60, marks=LONG)]
)
def test_nobody_fails_who_is_alive_when_a_fifth_of_all_packets_is_lost(size: int, seconds: int) -> None:
    simulation = formed(3, size, STORM)
    simulation.run(seconds * 1_000)
    assert simulation.history, "a storm without a single suspicion is none"
    assert [*no_false_failures(simulation), *always(simulation)] == []


@pytest.mark.parametrize("seed", range(4))
def test_a_link_that_is_cut_makes_nobody_a_suspect(seed: int) -> None:
    simulation = formed(seed, 5)
    simulation.split([0], [1])
    simulation.cut([2], [3])
    simulation.run(60_000)
    assert simulation.history == []


@pytest.mark.parametrize("seed", range(4))
def test_a_node_that_hears_nothing_can_not_have_the_others_declared_failed(seed: int) -> None:
    simulation = formed(seed, 6)
    others = [1, 2, 3, 4, 5]
    simulation.cut(others, [0])
    simulation.run(60_000)
    wrongly = [
        happened
        for happened in simulation.history
        if isinstance(happened.event, MemberChanged)
        and happened.event.change == Change.FAILED
        and happened.observer != 0
        and happened.event.member.node_id != 0
    ]
    assert wrongly == []
    assert set(simulation.times(Change.FAILED, 0)) == set(others)


@pytest.mark.parametrize("seed", range(4))
def test_a_process_that_stood_still_suspects_nobody_and_comes_back(seed: int) -> None:
    simulation = formed(seed, 5)
    simulation.stop(2, 20_000)
    simulation.run(20_000)
    assert all(happened.observer != 2 for happened in simulation.history)
    simulation.history.clear()
    simulation.run(5_000)
    assert all(happened.observer != 2 for happened in simulation.history)
    assert list(everybody_agrees(simulation)) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_process_that_stood_still_does_not_count_that_time_against_its_suspects(seed: int) -> None:
    simulation = suspicious_sleeper(seed)
    assert simulation.times(Change.FAILED, 3) == {}


# Partitions


@pytest.mark.parametrize(
    ("size", "minority", "seed"),
    [(3, 1, 0), (3, 1, 1), (10, 5, 0), (10, 3, 1), (30, 15, 0), pytest.param(100, 50, 0, marks=LONG)],
)
def test_the_halves_of_a_healed_network_grow_together(size: int, minority: int, seed: int) -> None:
    simulation = formed(seed, size)
    here = simulation.random.sample(range(size), minority)
    there = [node_id for node_id in range(size) if node_id not in here]
    simulation.split(here, there)
    simulation.run(failed_within_ms(size) + 15_000)
    assert view(simulation, here[0]) == set(here)
    assert view(simulation, there[0]) == set(there)
    simulation.history.clear()

    simulation.heal()

    assert simulation.run_until_converged(30_000) is not None
    assert [*no_false_failures(simulation), *always(simulation)] == []
    simulation.run(20_000)
    assert list(everybody_agrees(simulation)) == []


def view(simulation: Simulation, host: int) -> set[int]:
    return {member.node_id for member in simulation[host].members() if member.status == Status.ALIVE}


# Joining


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_nodes_with_the_same_seeds_find_each_other_whatever_the_order_of_their_starts(order: Sequence[int]) -> None:
    simulation = Simulation(seed=sum(order), weather=Weather(loss=0.1))
    for node_id in order:
        simulation.start(node_id, [0, 1, 2])
        simulation.run(simulation.random.choice([0, 500, 5_000]))
    assert simulation.run_until_converged(10_000) is not None


@pytest.mark.parametrize("seed", range(4))
def test_any_member_will_do_as_the_seed_of_a_newcomer(seed: int) -> None:
    simulation = Simulation(seed, STORM)
    simulation.start(0)
    for node_id in range(1, 20):
        simulation.start(node_id, [simulation.random.randrange(node_id)])
        simulation.run(simulation.random.choice([0, 0, 300]))
    assert simulation.run_until_converged(30_000) is not None


def test_a_chain_of_seeds_that_all_start_before_their_seed_becomes_one_cluster() -> None:
    simulation = Simulation(seed=1)
    for node_id in range(10):
        simulation.start(node_id, [node_id + 1] if node_id < 9 else [])
        simulation.run(300)
    assert simulation.run_until_converged(10_000) is not None


@pytest.mark.parametrize("weather", [WIRED, pytest.param(STORM, marks=LONG)], ids=["calm", "storm"])
def test_a_hundred_nodes_that_start_at_once_with_one_seed_know_each_other_soon(weather: Weather) -> None:
    simulation = Simulation(seed=1, weather=weather)
    for node_id in range(100):
        simulation.start(node_id, [0])
    assert simulation.run_until_converged(3_000 if weather is WIRED else 30_000) is not None
    assert simulation.largest_packet_bytes <= CONFIG.packet_bytes_max


def test_load_figures_of_everybody_reach_everybody() -> None:
    simulation = formed(1, 30)
    for host in simulation.up:
        simulation[host].set_load(Load(requests_per_s=1_000 + host))
    simulation.run(2 * CONFIG.load_interval_ms)
    for host in simulation.up:
        figures = {member.node_id: member.load.requests_per_s for member in simulation[host].members()}
        assert figures == {node_id: 1_000 + node_id for node_id in range(30)}


# Anything at any time


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_everybody_agrees_in_the_end(seed: int) -> None:
    """Crashes, restarts, goodbyes, sleeping processes, partitions and storms, one after the other."""
    simulation = formed(seed, 7)
    dice = random.Random(seed)
    for _ in range(12):
        disturb(simulation, dice)
        simulation.run(dice.randint(100, 8_000))
        assert always(simulation) == []
    simulation.heal()
    simulation.weather = WIRED
    for host in range(7):
        if host not in simulation.up:
            simulation.start(host, [*simulation.up, host])
    assert simulation.run_until_converged(60_000) is not None
    simulation.run(30_000)
    assert [*everybody_agrees(simulation), *always(simulation)] == []


def disturb(simulation: Simulation, dice: random.Random) -> None:
    host = dice.randrange(7)
    match dice.choice(["crash", "restart", "leave", "stop", "split", "one way", "heal", "storm", "calm"]):
        case "crash" if len(simulation.up) > 2:
            simulation.crash(host)
        case "leave" if len(simulation.up) > 2 and host in simulation.up:
            simulation.leave(host)
        case "restart":
            simulation.crash(host)
            simulation.start(host, range(7), clock_set_back_ms=dice.choice([0, 0, 3_600_000]))
        case "stop":
            simulation.stop(host, dice.randint(100, 10_000))
        case "split":
            side = dice.sample(range(7), 3)
            simulation.split(side, [other for other in range(7) if other not in side])
        case "one way":
            simulation.cut([host], dice.sample(range(7), 3))
        case "storm":
            simulation.weather = STORM
        case _:
            simulation.heal()
            simulation.weather = WIRED
