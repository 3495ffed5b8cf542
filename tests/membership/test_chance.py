import random

from hypothesis import given
from hypothesis import strategies as st

from ottla.membership.chance import around, sample, shuffled


@given(st.lists(st.integers(), unique=True), st.integers(0, 20), st.integers())
def test_a_sample_has_different_ones_of_those_there_are(choices: list[int], count: int, seed: int) -> None:
    chosen = sample(random.Random(seed), choices, count)
    assert len(chosen) == len(set(chosen)) == min(count, len(choices))
    assert set(chosen) <= set(choices)


def test_everybody_is_chosen_equally_often() -> None:
    dice = random.Random(1)
    counts = dict.fromkeys(range(10), 0)
    for _ in range(10_000):
        for chosen in sample(dice, range(10), 3):
            counts[chosen] += 1
    assert min(counts.values()) > 2_800
    assert max(counts.values()) < 3_200


def test_a_shuffle_keeps_all_and_is_not_always_the_same() -> None:
    dice = random.Random(1)
    orders = {tuple(shuffled(dice, range(5))) for _ in range(50)}
    assert all(sorted(order) == list(range(5)) for order in orders)
    assert len(orders) > 20


@given(st.integers(1, 100_000), st.integers())
def test_around_is_within_a_fifth(duration_ms: int, seed: int) -> None:
    assert 0.8 * duration_ms <= around(random.Random(seed), duration_ms) <= 1.2 * duration_ms
