"""Who becomes a voter, and who stops being one."""

from collections.abc import Iterable

from ottla.metadata.image import Endpoint, MetadataImage
from ottla.metadata.state import MetadataState
from ottla.protocol.messages.metadata_records import BrokerEndpoint, RegisterBrokerRecord
from ottla.raft.voters import Voter, VoterSet
from ottla.runtime.quorum_voters import Situation

HERE = Endpoint("PLAINTEXT", "here", 9092, 0)


def directory(node_id: int) -> bytes:
    return bytes(15) + bytes([node_id])


def image_of(brokers: Iterable[int], fenced: Iterable[int] = (), racks: dict[int, str] | None = None) -> MetadataImage:
    state = MetadataState()
    for node_id in brokers:
        state.replay(
            RegisterBrokerRecord(
                broker_id=node_id,
                broker_epoch=node_id,
                incarnation_id=directory(node_id),
                end_points=[BrokerEndpoint(name="PLAINTEXT", host="here", port=9092)],
                log_dirs=[directory(node_id)],
                rack=(racks or {}).get(node_id),
                fenced=node_id in set(fenced),
            )
        )
    return state.image


def situation(
    voters: Iterable[int],
    image: MetadataImage,
    *,
    voters_max: int = 3,
    silent: Iterable[int] = (),
    heard: dict[int, bytes] | None = None,
    unnamed: Iterable[int] = (),
) -> Situation:
    unknown = set(unnamed)
    known = [Voter(each) if each in unknown else Voter(each, directory(each)) for each in voters]
    return Situation(
        own_id=1,
        voters=VoterSet(tuple(known)),
        image=image,
        voters_max=voters_max,
        directory_of=(heard or {}).get,
        silent=frozenset(silent),
    )


def added(view: Situation) -> list[int]:
    return [voter.node_id for voter in view.to_add()]


def test_two_are_added_to_one_and_none_if_there_is_only_one() -> None:
    assert added(situation([1], image_of([1, 2]))) == []
    assert added(situation([1], image_of([1, 2, 3]))) == [2, 3]
    assert added(situation([1, 2], image_of([1, 2, 3]))) == [3]


def test_no_more_than_there_should_be() -> None:
    brokers = image_of(range(1, 8))
    assert added(situation([1, 2, 3], brokers)) == []
    assert added(situation([1, 2, 3], brokers, voters_max=4)) == []
    assert added(situation([1, 2, 3], brokers, voters_max=5)) == [4, 5, 6, 7]


def test_brokers_that_are_out_of_service_do_not_become_voters() -> None:
    assert added(situation([1], image_of([1, 2, 3], fenced=[3]))) == []


def test_racks_without_a_voter_come_first() -> None:
    image = image_of([1, 2, 3, 4], racks={1: "a", 2: "a", 3: "b", 4: "c"})
    assert added(situation([1], image)) == [3, 4, 2]


def test_founders_are_named_when_they_are_heard_from() -> None:
    view = situation([1, 2, 3], image_of([]), unnamed=[1, 2, 3], heard={2: directory(2), 3: bytes(16)})
    assert view.to_name() == [Voter(2, directory(2))]
    assert not view.is_settled


def test_a_silent_voter_is_replaced_if_there_is_somebody_to_take_its_place() -> None:
    gone = image_of([1, 2, 3, 4], fenced=[3])
    assert situation([1, 2, 3], gone, silent=[3]).to_remove() == [3]
    assert situation([1, 2, 3], gone).to_remove() == []
    assert situation([1, 2, 3], image_of([1, 2, 3], fenced=[3]), silent=[3]).to_remove() == []
    assert situation([1, 2, 3], image_of([1, 2, 3, 4]), silent=[3]).to_remove() == [], "it is in service"


def test_a_voter_that_has_lost_its_disk_is_removed_and_may_begin_anew() -> None:
    gone = image_of([1, 2, 3], fenced=[3])
    assert situation([1, 2, 3], gone, silent=[3], heard={3: b"x" * 16}).to_remove() == [3]
    assert situation([1, 2, 3], gone, silent=[3], heard={3: directory(3)}).to_remove() == []


def test_nobody_is_removed_if_those_left_can_not_decide_it() -> None:
    gone = image_of(range(1, 9), fenced=[3, 4, 5])
    assert situation([1, 2, 3, 4, 5], gone, silent=[3, 4, 5], voters_max=5).to_remove() == []
    assert situation([1, 2, 3, 4, 5], gone, silent=[4, 5], voters_max=5).to_remove() == [4, 5]


def test_with_all_voters_there_nothing_needs_to_be_watched() -> None:
    assert situation([1, 2, 3], image_of([1, 2, 3, 4])).is_settled
    assert situation([1], image_of([1, 2])).is_settled
    assert not situation([1, 2, 3], image_of([1, 2, 3], fenced=[2])).is_settled
