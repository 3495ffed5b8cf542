"""Faults are drawn from the seed, within what is allowed."""

from random import Random

from ottla.testing.sim_plan import Faults, draw


def test_the_same_dice_draw_the_same_plan() -> None:
    assert draw(Random(1), Faults.cluster(), nodes=3, seconds=60) == draw(
        Random(1), Faults.cluster(), nodes=3, seconds=60
    )


def test_without_faults_there_is_no_plan() -> None:
    assert draw(Random(1), Faults.none(), nodes=3, seconds=60) == []


def test_only_what_is_allowed_is_drawn_within_its_time() -> None:
    plan = draw(Random(1), Faults(kill=1, split=2), nodes=3, seconds=600)
    assert {strike.kind for strike in plan} == {"kill", "split"}
    assert {strike.node for strike in plan} == {0, 1, 2}
    assert all(0 <= strike.at_s < 600 for strike in plan)


def test_every_kind_of_the_cluster_is_drawn() -> None:
    plan = draw(Random(1), Faults.cluster(), nodes=5, seconds=3000)
    assert {strike.kind for strike in plan} == set(Faults.cluster().weights())
