from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import BrokerError, ErrorCode, InvariantError, ProtocolError
from ottla.raft.voters import NO_VOTERS, UNKNOWN_DIRECTORY, Voter, VoterHistory, VoterSet

HOME = bytes(range(16))
ELSEWHERE = bytes(reversed(range(16)))


def refused(error: pytest.ExceptionInfo[BrokerError]) -> ErrorCode:
    return error.value.code


def test_voters_are_kept_in_the_order_of_their_ids() -> None:
    assert VoterSet.of([3, 1, 2, 1]).ids == (1, 2, 3)
    assert VoterSet.of([1, 3]).with_voter(Voter(2)).ids == (1, 2, 3)


def test_a_voter_is_added_once() -> None:
    voters = VoterSet.of([1]).with_voter(Voter(2, HOME))
    with pytest.raises(BrokerError) as error:
        voters.with_voter(Voter(2, ELSEWHERE))
    assert refused(error) is ErrorCode.DUPLICATE_VOTER
    with pytest.raises(BrokerError) as error:
        voters.with_voter(Voter(1))
    assert refused(error) is ErrorCode.DUPLICATE_VOTER


def test_a_voter_known_by_its_id_alone_gets_its_directory() -> None:
    voters = VoterSet.of([1, 2]).with_voter(Voter(2, HOME))
    assert voters.find(2) == Voter(2, HOME)
    assert voters.find(1) == Voter(1, UNKNOWN_DIRECTORY)


def test_a_stranger_and_the_last_voter_cannot_be_removed() -> None:
    with pytest.raises(BrokerError) as error:
        VoterSet.of([1, 2]).without_voter(3)
    assert refused(error) is ErrorCode.VOTER_NOT_FOUND
    with pytest.raises(BrokerError) as error:
        VoterSet.of([1]).without_voter(1)
    assert refused(error) is ErrorCode.INVALID_REQUEST
    assert VoterSet.of([1, 2]).without_voter(1).ids == (2,)


def test_a_voter_that_comes_from_another_directory_is_not_believed() -> None:
    voters = VoterSet((Voter(1), Voter(2, HOME)))
    assert voters.admits(1, ELSEWHERE), "its directory was never known"
    assert voters.admits(2, HOME)
    assert not voters.admits(2, ELSEWHERE), "it has lost its disk"
    assert voters.admits(3, ELSEWHERE), "an observer may begin anew"


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 2**31 - 1), st.binary(min_size=16, max_size=16), max_size=8))
def test_what_is_written_is_read(voters: dict[int, bytes]) -> None:
    before = VoterSet(tuple(sorted(Voter(*item) for item in voters.items())))
    assert VoterSet.decode(before.encode()) == before


@pytest.mark.parametrize("cut", [0, 2, 3, 10, 22])
def test_a_voter_set_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(ProtocolError):
        VoterSet.decode(VoterSet.of([1]).encode()[:cut])


def test_a_voter_set_with_something_behind_it_or_of_a_later_format_is_refused() -> None:
    data = VoterSet.of([1]).encode()
    with pytest.raises(ProtocolError):
        VoterSet.decode(data + b"x")
    with pytest.raises(ProtocolError):
        VoterSet.decode(b"\x02" + data[1:])


def test_the_history_answers_for_every_place_of_the_log() -> None:
    history = VoterHistory(5, VoterSet.of([1]))
    history.add(8, VoterSet.of([1, 2]))
    assert history.at(7) == VoterSet.of([1])
    assert history.at(8) == history.newest == VoterSet.of([1, 2])
    assert history.since(7) == [VoterSet.of([1]), VoterSet.of([1, 2])]
    assert history.since(8) == [VoterSet.of([1, 2])]
    with pytest.raises(InvariantError):
        history.at(4)


def test_a_change_can_be_taken_back_but_not_the_first_set() -> None:
    history = VoterHistory(5, VoterSet.of([1]))
    history.add(8, VoterSet.of([1, 2]))
    history.truncate(8)
    assert history.newest == VoterSet.of([1])
    assert history.newest_index == 5
    with pytest.raises(InvariantError):
        history.truncate(5)


def test_what_came_before_a_place_is_forgotten_but_not_what_holds_there() -> None:
    history = VoterHistory(0, NO_VOTERS)
    history.add(3, VoterSet.of([1]))
    history.add(9, VoterSet.of([1, 2]))
    history.forget_before(5)
    assert history.at(5) == VoterSet.of([1])
    assert history.at(9) == VoterSet.of([1, 2])
    with pytest.raises(InvariantError):
        history.at(2)
