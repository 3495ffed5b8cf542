from dataclasses import replace

import pytest

from ottla.membership import Address, Load, Member, Status
from ottla.membership.roster import Roster, all_entries, status_entry
from ottla.membership.wire import Alive, Failed, Left, Loaded, Suspect

HERE = Address("h", 1)


def member(node_id: int, status: Status = Status.ALIVE) -> Member:
    return Member(node_id=node_id, run_id=1, incarnation=3, status=status, gossip=HERE, kafka=HERE)


def roster(me: int, *others: Member) -> Roster:
    made = Roster(member(me))
    for other in others:
        made.put(other)
    return made


def test_a_suspect_is_live_and_those_who_failed_or_left_are_gone() -> None:
    view = roster(1, member(5, Status.SUSPECT), member(2), member(4, Status.LEFT), member(3, Status.FAILED)).view
    assert {other.node_id for other in view.live} == {2, 5}
    assert {other.node_id for other in view.gone} == {3, 4}
    assert {other.node_id for other in view.failed} == {3}
    assert view.size == 3
    assert [other.node_id for other in view.everybody] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("me", "successor"), [(1, 2), (2, 6), (5, 6), (6, 8), (8, 1), (9, 1)])
def test_the_successor_is_the_next_unsuspected_one_going_round(me: int, successor: int) -> None:
    everybody = [member(node_id) for node_id in (1, 2, 6, 8)] + [member(3, Status.SUSPECT), member(4, Status.FAILED)]
    found = roster(me, *(other for other in everybody if other.node_id != me)).view.successor
    assert found is not None
    assert found.node_id == successor


def test_alone_there_is_no_successor() -> None:
    assert roster(1, member(2, Status.SUSPECT)).view.successor is None


def test_everybody_is_somebodys_successor() -> None:
    everybody = [member(node_id) for node_id in (3, 1, 4, 15, 9)]
    views = [roster(me.node_id, *(other for other in everybody if other != me)).view for me in everybody]
    assert sorted(view.successor.node_id for view in views if view.successor) == [1, 3, 4, 9, 15]


def test_a_view_that_was_taken_does_not_change() -> None:
    made = roster(1, member(2))
    before = made.view
    made.put(member(3))
    made.remove(2)
    made.me = replace(made.me, incarnation=9)
    assert [other.node_id for other in before.everybody] == [1, 2]
    assert [other.node_id for other in made.view.everybody] == [1, 3]
    assert made.me.incarnation == 9


def test_what_is_said_of_a_member_depends_on_its_status() -> None:
    said = {status: status_entry(member(2, status), accuser=7) for status in Status}
    assert said == {
        Status.ALIVE: Alive(2, 1, 3, HERE, HERE, None),
        Status.SUSPECT: Suspect(2, 1, 3, 7),
        Status.FAILED: Failed(2, 1, 3, 7),
        Status.LEFT: Left(2, 1, 3),
    }


def test_of_a_suspect_it_is_said_first_where_it_is_so_that_it_can_be_asked() -> None:
    loaded = replace(member(2, Status.SUSPECT), load=Load(partitions=5), load_version=4)
    assert all_entries(loaded, accuser=7) == [
        Alive(2, 1, 3, HERE, HERE, None),
        Suspect(2, 1, 3, 7),
        Loaded(2, 1, 4, Load(partitions=5)),
    ]


def test_of_one_that_is_gone_only_that_is_said() -> None:
    gone = replace(member(2, Status.FAILED), load=Load(partitions=5), load_version=4)
    assert all_entries(gone, accuser=7) == [Failed(2, 1, 3, 7)]
