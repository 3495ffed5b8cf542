"""A run that the host disturbed is made again, and the least disturbed one counts."""

from dataclasses import replace

from bench.again import LONG_S, TRIES, Again
from bench.plan import Run

from tests.bench.canned import run


class Machine:
    """Makes one run after the other; the host takes so much from each."""

    def __init__(self, *stolen: float, takes_s: float = 1.0, fails_at: int = 0) -> None:
        self._stolen = stolen
        self._takes_s = takes_s
        self._fails_at = fails_at
        self.now_s = 0.0
        self.made = 0

    def clock(self) -> float:
        return self.now_s

    def make(self) -> Run:
        self.made += 1
        self.now_s += self._takes_s
        made = run("produce_1conn", "ottla", rate=float(self.made))
        figures = {"error": "it ended"} if self.made == self._fails_at else made.figures
        return replace(made, figures=figures, stolen=self._stolen[self.made - 1])


def least(machine: Machine, most: int = 10) -> Run:
    return Again(most, clock=machine.clock).least_disturbed(machine.make)


def test_a_run_in_peace_is_made_once() -> None:
    machine = Machine(0.01)

    assert (least(machine).tries, machine.made) == (1, 1)


def test_a_disturbed_run_is_made_again_until_there_is_peace() -> None:
    taken = least(Machine(0.1, 0.0))

    assert (taken.figures["rate"], taken.stolen, taken.tries) == (2.0, 0.0, 2)


def test_where_there_is_no_peace_the_least_disturbed_run_counts() -> None:
    machine = Machine(0.1, 0.05, 0.2)

    taken = least(machine)

    assert (taken.figures["rate"], taken.stolen, taken.tries, machine.made) == (2.0, 0.05, TRIES, TRIES)


def test_what_was_measured_decides_nothing() -> None:
    """The quickest run is not the one that counts, if more was stolen from it."""
    made = [
        replace(run("produce_1conn", "ottla", rate=9.0), stolen=0.1),
        replace(run("produce_1conn", "ottla", rate=1.0), stolen=0.01),
    ]

    def make() -> Run:
        return made.pop(0)

    assert Again(1).least_disturbed(make).figures["rate"] == 1.0


def test_a_run_that_failed_is_taken_as_it_is() -> None:
    machine = Machine(0.1, 0.1, fails_at=1)

    assert "error" in least(machine).figures
    assert machine.made == 1


def test_a_failed_try_does_not_replace_what_was_measured() -> None:
    taken = least(Machine(0.1, 0.0, fails_at=2))

    assert (taken.figures["rate"], taken.tries) == (1.0, 2)


def test_what_takes_long_is_not_made_again() -> None:
    machine = Machine(0.1, 0.0, takes_s=LONG_S + 1)

    assert least(machine).tries == 1


def test_an_hour_without_peace_ends_as_well() -> None:
    machine = Machine(*[0.1] * 9)
    again = Again(3, clock=machine.clock)

    tries = [again.least_disturbed(machine.make).tries for _ in range(4)]

    assert tries == [3, 2, 1, 1]
