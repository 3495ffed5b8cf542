"""How a commit waits for others, and the loop for what comes next: in turns, or asleep where processors are full."""

import asyncio
from typing import Any

import pytest

from ottla.config import Durability
from ottla.runtime.commit_timing import Gathering, Lookout
from ottla.runtime.crowding import Crowding
from tests.runtime.commit_rig import NEVER_INLINE_US, Rig, refusal, run


def test_a_commit_waits_for_as_many_as_shared_one_lately() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        rig.append()
        await rig.committer.drain()
        before = rig.committer.latency.count
        rig.append()
        await asyncio.sleep(0)
        rig.append()
        await rig.committer.drain()
        assert rig.committer.latency.count == before + 1
        assert rig.partition.high_watermark == 4

    run(scenario)


def test_it_does_not_wait_for_ever() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        rig.append()
        await rig.committer.drain()
        rig.append()
        await rig.committer.drain()
        assert rig.partition.high_watermark == 3

    run(scenario)


@pytest.mark.parametrize("durability", [Durability.OS, Durability.COMMIT])
@pytest.mark.parametrize(("on_failure", "turns"), [(refusal, Lookout.TURNS_MAX), (None, 0)])
def test_after_it_has_answered_a_client_the_loop_stays_awake(
    durability: Durability, on_failure: Any, turns: int
) -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        answered = rig.committer.after_commit(None, on_failure)
        await rig.committer.drain()
        assert answered.done
        before = rig.loop.count
        await rig.outlast_a_look()
        assert rig.loop.count - before == max(0, turns - 1)

    run(scenario, durability=durability)


def always_full() -> Crowding:
    """Each time that it was let in, the thread had waited for a second."""
    return Crowding(waits=iter((n * 10**9, n) for n in range(1_000)).__next__)


async def crowded(rig: Rig, batches: int) -> None:
    """So many commits that the system was asked twice, the last of them with so many batches."""
    for _ in range(Crowding.LOOK_EVERY + 1):
        rig.append()
        await rig.committer.drain()
    for _ in range(batches):
        rig.append()
    await rig.committer.drain()


@pytest.mark.parametrize("is_full", [False, True])
def test_where_the_processors_are_full_it_sleeps_instead_of_looking(is_full: bool) -> None:
    async def scenario(rig: Rig) -> None:
        await crowded(rig, batches=4)
        before = rig.loop.count
        rig.append()
        rig.committer.after_commit(None, refusal)
        await rig.committer.drain()
        await rig.outlast_a_look()
        looks = rig.loop.count - before
        assert looks < 5 if is_full else looks > Gathering.TURNS_MAX + Lookout.TURNS_MAX - 5

    run(scenario, crowding=always_full() if is_full else None)


def test_what_comes_while_it_sleeps_shares_the_commit() -> None:
    async def scenario(rig: Rig) -> None:
        await crowded(rig, batches=4)
        loop = asyncio.get_running_loop()
        commits: list[int] = []
        rig.committer.on_commit = lambda: commits.append(rig.partition.high_watermark)
        before = rig.partition.high_watermark
        rig.append()
        loop.call_soon(rig.append)
        await rig.committer.drain()
        assert commits == [before + 2]

    run(scenario, crowding=always_full())


def test_while_a_thread_commits_the_loop_does_not_stay_awake() -> None:
    async def scenario(rig: Rig) -> None:
        rig.append()
        rig.committer.after_commit(None, refusal)
        await rig.committer.drain()
        before = rig.loop.count
        await rig.outlast_a_look()
        assert rig.loop.count == before

    run(scenario, NEVER_INLINE_US)
