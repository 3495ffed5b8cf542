"""Elections that somebody asks for."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import NO_LEADER
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.metadata.rig import Rig
from tests.metadata.test_heartbeats import SESSION_MS, a_rig, create

PREFERRED, UNCLEAN = 0, 1


def elect(rig: Rig, type_: int, *indexes: int, topic: str = "t") -> list[int]:
    return [code for _, code in elected(rig, type_, [TopicPartitions(topic=topic, partitions=indexes)])]


def elected(rig: Rig, type_: int, wanted: list[TopicPartitions] | None) -> list[tuple[int, int]]:
    request = ElectLeadersRequest(election_type=type_, topic_partitions=wanted)
    response = rig.commit(rig.controller.elect_leaders(request))
    assert response is not None
    return [
        (result.partition_id, result.error_code)
        for topic in response.replica_election_results
        for result in topic.partition_result
    ]


@pytest.fixture
def moved() -> Rig:
    """Broker 1 has been away: it leads nothing, and is in sync again."""
    rig = a_rig()
    create(rig, partitions=3)
    rig.start(1)
    topic_id = rig.image.topics["t"].topic_id
    for index in range(3):
        assert rig.alter((topic_id, index), list(rig.partition("t", index).replicas)) == ErrorCode.NONE
    return rig


def preferred_of(rig: Rig, broker_id: int) -> int:
    return next(index for index in range(3) if rig.partition("t", index).replicas[0] == broker_id)


def test_leadership_goes_back_to_the_preferred_replica(moved: Rig) -> None:
    index = preferred_of(moved, 1)
    assert moved.partition("t", index).leader != 1
    assert elect(moved, PREFERRED, index) == [ErrorCode.NONE]
    assert moved.partition("t", index).leader == 1


def test_who_has_the_wanted_leader_needs_no_election(moved: Rig) -> None:
    index = preferred_of(moved, 2)
    assert elect(moved, PREFERRED, index) == [ErrorCode.ELECTION_NOT_NEEDED]
    assert elect(moved, UNCLEAN, preferred_of(moved, 1)) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_a_partition_is_elected_once_in_a_request(moved: Rig) -> None:
    index = preferred_of(moved, 1)
    assert elect(moved, PREFERRED, index, index) == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]


def test_all_means_those_that_need_it(moved: Rig) -> None:
    assert elected(moved, PREFERRED, None) == [(preferred_of(moved, 1), ErrorCode.NONE)]
    assert elected(moved, PREFERRED, None) == []


def test_a_preferred_replica_that_is_away_or_behind_does_not_lead(moved: Rig) -> None:
    moved.start(1)
    assert elect(moved, PREFERRED, preferred_of(moved, 1)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


def test_unknown_partitions_are_told(moved: Rig) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(moved, PREFERRED, 99) == [unknown]
    assert elect(moved, PREFERRED, 0, topic="nothing") == [unknown]


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(BrokerError) as refused:
        a_rig(1).controller.elect_leaders(ElectLeadersRequest(election_type=2))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_any_leader_rather_than_none() -> None:
    rig = a_rig(2)
    create(rig, replicas=2)
    first, second = rig.partition().replicas
    rig.kill(second)
    rig.pass_ms(SESSION_MS + 200)
    rig.kill(first)
    rig.pass_ms(SESSION_MS + 200)
    assert elect(rig, UNCLEAN, 0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    rig.start(second)
    assert rig.partition().leader == NO_LEADER
    assert elect(rig, PREFERRED, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    rig.unclean.add("t")
    assert elect(rig, UNCLEAN, 0) == [ErrorCode.NONE]
    assert (rig.partition().leader, rig.partition().leader_recovery_state) == (second, 1)
