"""The checker of the kill loop finds what it is there to find."""

from dataclasses import dataclass

from tests.robustness.kill_loop import check


@dataclass(frozen=True, slots=True)
class Stored:
    """As much of a message as the checker looks at."""

    number: int
    at: int
    text: bytes

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return self.text


A, B = Stored(0, 0, b"a"), Stored(0, 1, b"b")


def test_what_is_where_it_was_acknowledged_is_fine() -> None:
    assert check([A, B], [A, B]) == []


def test_what_nobody_was_told_of_may_be_there() -> None:
    assert check([A], [A, B]) == []


def test_a_record_that_is_missing_is_lost() -> None:
    (problem,) = check([A, B], [A])
    assert problem.startswith("lost: b'b'")


def test_a_record_at_another_offset_has_moved() -> None:
    problems = check([A], [Stored(0, 0, b"z"), Stored(0, 1, b"a")])
    assert problems[0].startswith("moved: b'a'")


def test_a_record_that_is_there_twice_is_a_duplicate() -> None:
    (problem,) = check([A], [A, Stored(0, 1, b"a")])
    assert problem.startswith("duplicate: b'a'")
