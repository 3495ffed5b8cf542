"""Values are what frozen, slotted, keyword-only dataclasses are."""

import copy
import dataclasses
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pytest

from ottla.values import value

T = TypeVar("T")


@value
class Base:
    sender: int
    term: int = 3
    """A field may be explained."""


@value
class Vote(Base):
    granted: bool
    names: Sequence[str] = ()

    @property
    def is_good(self) -> bool:
        return self.granted and self.term > 0


@value
class Empty:
    """Nothing to say."""


@value
class Holder(Generic[T]):
    held: T | None = None


@value
class Checked:
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("too small")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heir(Base):
    """A dataclass that inherits from a value."""

    more: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    sender: int
    term: int = 3
    granted: bool
    names: Sequence[str] = ()


def a_vote(**fields: Any) -> Vote:
    return Vote(**({"sender": 1, "granted": True} | fields))


def test_fields_are_given_by_name_and_have_defaults() -> None:
    vote = Vote(granted=True, sender=7)
    assert (vote.sender, vote.term, vote.granted, vote.names, vote.is_good) == (7, 3, True, (), True)


@pytest.mark.parametrize("fields", [{}, {"granted": True}, {"sender": 1, "granted": True, "other": 2}])
def test_missing_and_unknown_fields_are_refused_again_and_again(fields: dict[str, Any]) -> None:
    for _ in range(2):
        with pytest.raises(TypeError):
            Vote(**fields)
    with pytest.raises(TypeError):
        Vote(1, granted=True)  # type: ignore[call-arg]  # what a caller must not do


def test_equal_if_of_one_class_and_with_equal_fields() -> None:
    assert a_vote() == a_vote()
    assert a_vote() != a_vote(term=4)
    assert a_vote().__eq__(Twin(sender=1, granted=True)) is NotImplemented
    assert Base(sender=1) != a_vote()
    assert Empty() == Empty()
    assert len({a_vote(), a_vote(), a_vote(term=4)}) == 2


def test_shown_as_a_dataclass_is() -> None:
    assert repr(a_vote()) == repr(Twin(sender=1, granted=True)).replace("Twin", "Vote")
    assert repr(Empty()) == "Empty()"


def test_can_not_be_changed_and_has_no_room_for_more() -> None:
    vote = a_vote()
    with pytest.raises(dataclasses.FrozenInstanceError):
        vote.term = 5  # type: ignore[misc]  # what must not be done
    with pytest.raises(dataclasses.FrozenInstanceError):
        del vote.term
    assert not hasattr(vote, "__dict__")
    assert Vote.__slots__ == ("granted", "names")  # type: ignore[attr-defined]  # made by the decorator


def test_what_is_checked_when_it_is_made_is_checked() -> None:
    assert Checked(size=1).size == 1
    with pytest.raises(ValueError, match="too small"):
        Checked(size=-1)


def test_generic_values() -> None:
    assert Holder[int](held=3) == Holder(held=3)
    assert Holder[str]().held is None


def test_the_tools_for_dataclasses_work() -> None:
    vote = a_vote()
    assert dataclasses.is_dataclass(vote)
    assert dataclasses.replace(vote, term=9) == a_vote(term=9)
    assert [item.name for item in dataclasses.fields(Vote)] == ["sender", "term", "granted", "names"]
    assert dataclasses.asdict(Base(sender=2)) == {"sender": 2, "term": 3}
    assert [item.name for item in dataclasses.fields(Base)] == ["sender", "term"]


def test_a_dataclass_may_inherit_from_one() -> None:
    heir = Heir(sender=1)
    assert (heir.term, heir.more) == (3, [])
    assert heir == Heir(sender=1)
    assert dataclasses.replace(heir, term=4).term == 4


def test_copies_and_pickles_are_equal() -> None:
    vote = a_vote(names=["a"])
    pickled = pickle.loads(pickle.dumps(vote))  # noqa: S301  # its own bytes
    for other in (copy.copy(vote), copy.deepcopy(vote), pickled):
        assert other == vote
        assert type(other) is Vote


def test_matched_by_their_fields() -> None:
    match a_vote(term=8):
        case Vote(term=term, granted=True):
            assert term == 8
        case _:
            pytest.fail("not matched")


def test_defaults_that_are_made_anew_each_time_are_refused() -> None:
    with pytest.raises(TypeError, match="plain defaults"):

        @value
        class Wrong:
            items: list[int] = field(default_factory=list)
