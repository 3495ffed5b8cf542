"""Shuffling and sampling with the little that `ports.Random` offers."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ottla.ports import Random

T = TypeVar("T")


def sample(random: Random, choices: Sequence[T], count: int) -> list[T]:
    """`count` different ones in random order, or all if there are fewer."""
    pool = list(choices)
    count = min(count, len(pool))
    for place in range(count):
        chosen = random.randint(place, len(pool) - 1)
        pool[place], pool[chosen] = pool[chosen], pool[place]
    return pool[:count]


def shuffled(random: Random, choices: Iterable[T]) -> list[T]:
    pool = list(choices)
    return sample(random, pool, len(pool))


def around(random: Random, duration_ms: int) -> int:
    """From four fifths to six fifths of it, so that nodes that started together do not stay in step."""
    return duration_ms + random.randint(-(duration_ms // 5), duration_ms // 5)
