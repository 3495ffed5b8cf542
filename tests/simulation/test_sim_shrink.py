"""A failing plan becomes as small as it can be, within the runs that are allowed."""

from ottla.testing.checkers import Violation
from ottla.testing.sim_cluster import SimulationFailedError
from ottla.testing.sim_plan import Plan, Strike
from ottla.testing.sim_shrink import shrink


def strike(number: int) -> Strike:
    return Strike(at_s=float(number), kind="kill", node=0, length_s=0.0, down_s=0.0, choices=number)


def failure(plan: Plan, rule: str = "NoLostWrites") -> SimulationFailedError:
    return SimulationFailedError(1, [Violation(rule, "is broken")], plan, "")


PLAN = [strike(number) for number in range(20)]


def test_only_the_strikes_that_matter_are_left() -> None:
    def attempt(plan: Plan) -> SimulationFailedError | None:
        return failure(plan) if {strike(3), strike(11)} <= set(plan) else None

    assert list(shrink(failure(PLAN), attempt).plan) == [strike(3), strike(11)]


def test_a_run_that_fails_without_faults_needs_none() -> None:
    assert list(shrink(failure(PLAN), failure).plan) == []


def test_another_failure_is_not_the_same() -> None:
    def attempt(plan: Plan) -> SimulationFailedError | None:
        return failure(plan, "Liveness")

    assert list(shrink(failure(PLAN), attempt).plan) == PLAN


def test_there_are_no_more_runs_than_allowed() -> None:
    runs: list[Plan] = []

    def attempt(plan: Plan) -> SimulationFailedError | None:
        runs.append(plan)
        return None

    shrink(failure(PLAN), attempt, runs_max=7)
    assert len(runs) == 7
