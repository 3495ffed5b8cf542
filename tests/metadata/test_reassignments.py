"""Moves of partitions, one record at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.metadata.reassignments import cancelled, led_by, list_partition_reassignments, moved, target_of
from ottla.metadata.state import UNCHANGED_LEADER
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.messages.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.metadata.balancing import a_cluster, after, caught_up, completed, partition_of, topic_id_of, with_topic
from tests.metadata.cluster import a_controller, commit, create

T = topic_id_of("t")


def a_topic(*replicas: int, brokers: int = 6) -> MetadataImage:
    return with_topic(a_cluster(brokers), "t", replicas)


def with_isr(image: MetadataImage, *isr: int) -> MetadataImage:
    return after(image, [PartitionChangeRecord(topic_id=T, partition_id=0, isr=isr)])


def move(image: MetadataImage, *target: int) -> MetadataImage:
    return after(image, [moved(image, T, 0, target)])


def complete(image: MetadataImage) -> MetadataImage:
    return after(image, [completed(image, T, 0)])


def the(image: MetadataImage) -> PartitionImage:
    return partition_of(image, "t")


class TestAMove:
    def test_adds_the_new_replicas_and_keeps_the_old_ones(self) -> None:
        partition = the(move(a_topic(1, 2, 3), 4, 2, 5))
        assert partition.replicas == (4, 2, 5, 1, 3)
        assert partition.adding_replicas == (4, 5)
        assert partition.removing_replicas == (1, 3)
        assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, (1, 2, 3))
        assert target_of(partition) == (4, 2, 5)

    def test_is_not_done_before_all_that_stay_are_in_sync(self) -> None:
        image = with_isr(move(a_topic(1, 2, 3), 4, 2, 5), 1, 2, 3, 4)
        assert completed(image, T, 0) is None

    def test_ends_with_the_old_replicas_dropped_and_a_new_leader_epoch(self) -> None:
        image = complete(with_isr(move(a_topic(1, 2, 3), 4, 2, 5), 1, 2, 3, 4, 5))
        partition = the(image)
        assert partition.replicas == (4, 2, 5)
        assert set(partition.isr) == {4, 2, 5}
        assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
        assert (partition.leader, partition.leader_epoch) == (4, 1)

    def test_leaves_a_leader_that_stays_but_fences_those_that_go(self) -> None:
        partition = the(complete(with_isr(move(a_topic(1, 2), 1, 3), 1, 2, 3)))
        assert (partition.leader, partition.leader_epoch) == (1, 1)

    def test_waits_for_somebody_who_can_lead(self) -> None:
        image = with_isr(move(a_topic(1), 2), 1, 2)
        away = after(image, [BrokerRegistrationChangeRecord(broker_id=2, fenced=1)])
        assert completed(away, T, 0) is None
        assert completed(image, T, 0) is not None

    def test_passes_over_a_new_leader_that_is_away(self) -> None:
        image = with_isr(move(a_topic(1), 2, 3), 1, 2, 3)
        away = after(image, [BrokerRegistrationChangeRecord(broker_id=2, fenced=1)])
        assert the(complete(away)).leader == 3

    def test_that_only_removes_is_done_at_once(self) -> None:
        partition = the(move(a_topic(1, 2, 3), 2, 3))
        assert (partition.replicas, partition.removing_replicas) == ((2, 3), ())
        assert partition.leader == 2

    def test_that_only_reorders_is_done_at_once_and_moves_no_leader(self) -> None:
        image = a_topic(1, 2, 3)
        record = moved(image, T, 0, (3, 1, 2))
        assert record == PartitionChangeRecord(topic_id=T, partition_id=0, replicas=(3, 1, 2))

    def test_to_where_it_is_changes_nothing(self) -> None:
        assert moved(a_topic(1, 2, 3), T, 0, (1, 2, 3)) is None

    def test_that_grows_the_replicas_removes_none(self) -> None:
        image = move(a_topic(1), 1, 2, 3)
        assert the(image).removing_replicas == ()
        partition = the(complete(with_isr(image, 1, 2, 3)))
        assert (partition.replicas, partition.adding_replicas, partition.leader_epoch) == ((1, 2, 3), (), 0)

    def test_keeps_the_directories_of_replicas_with_them(self) -> None:
        a, b = b"a" * 16, b"b" * 16
        image = after(a_topic(1, 2), [PartitionChangeRecord(topic_id=T, partition_id=0, directories=[a, b])])
        assert the(move(image, 2, 3)).directories == (b, bytes(16), a)

    def test_forgets_eligible_leaders_that_are_dropped(self) -> None:
        image = after(
            a_topic(1, 2, 3),
            [PartitionChangeRecord(topic_id=T, partition_id=0, isr=[1], eligible_leader_replicas=[2, 3])],
        )
        assert the(move(image, 1, 2)).eligible_leader_replicas == (2, 3)
        assert the(complete(with_isr(move(image, 1, 2), 1, 2))).eligible_leader_replicas == (2,)


class TestAnotherMoveInBetween:
    def test_drops_at_once_what_the_first_was_adding_and_has_not_caught_up(self) -> None:
        partition = the(move(move(a_topic(1, 2), 3, 4), 5, 2))
        assert partition.replicas == (5, 2, 1)
        assert partition.adding_replicas == (5,)
        assert partition.removing_replicas == (1,)

    def test_keeps_what_has_caught_up_until_it_is_done(self) -> None:
        image = move(with_isr(move(a_topic(1, 2), 3, 4), 1, 2, 3), 5, 2)
        assert the(image).replicas == (5, 2, 1, 3)
        assert the(image).removing_replicas == (1, 3)
        assert the(complete(with_isr(image, 1, 2, 3, 5))).replicas == (5, 2)

    def test_keeps_what_may_lead_although_it_is_not_in_sync(self) -> None:
        image = move(a_topic(1), 2)
        image = after(
            image,
            [PartitionChangeRecord(topic_id=T, partition_id=0, isr=[], leader=-1, eligible_leader_replicas=[2])],
        )
        assert the(move(image, 3)).eligible_leader_replicas == (2,)
        assert 2 in the(move(image, 3)).replicas

    def test_back_to_the_start_is_done_at_once(self) -> None:
        partition = the(move(move(a_topic(1, 2), 3, 4), 1, 2))
        assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((1, 2), (), ())

    def test_still_knows_who_was_there_before(self) -> None:
        image = move(move(a_topic(1, 2), 3, 4), 3, 5)
        assert the(after(image, [cancelled(image, T, 0, unclean=False)])).replicas == (1, 2)


class TestTakingBack:
    def test_restores_what_was_there(self) -> None:
        image = with_isr(move(a_topic(1, 2, 3), 4, 5, 6), 1, 2, 3, 4)
        partition = the(after(image, [cancelled(image, T, 0, unclean=False)]))
        assert (set(partition.replicas), set(partition.isr)) == ({1, 2, 3}, {1, 2, 3})
        assert (partition.adding_replicas, partition.removing_replicas) == ((), ())
        assert partition.leader == 1

    def test_elects_another_leader_if_a_new_replica_led(self) -> None:
        image = with_isr(move(a_topic(1, 2), 3, 2), 2, 3)
        image = after(image, [PartitionChangeRecord(topic_id=T, partition_id=0, leader=3)])
        assert the(after(image, [cancelled(image, T, 0, unclean=False)])).leader == 2

    def test_is_refused_if_only_new_replicas_are_in_sync(self) -> None:
        image = with_isr(move(a_topic(1), 2, 3), 2)
        with pytest.raises(BrokerError, match="only replicas that it added") as caught:
            cancelled(image, T, 0, unclean=False)
        assert caught.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_gives_up_data_only_where_that_is_allowed(self) -> None:
        image = move(a_topic(1), 2, 3)
        image = after(image, [PartitionChangeRecord(topic_id=T, partition_id=0, isr=[2], leader=2)])
        partition = the(after(image, [cancelled(image, T, 0, unclean=True)]))
        assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)

    def test_needs_something_to_take_back(self) -> None:
        with pytest.raises(BrokerError) as caught:
            cancelled(a_topic(1), T, 0, unclean=False)
        assert caught.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_leadership_moves_with_the_order_of_preference() -> None:
    image = a_topic(1, 2, 3)
    partition = the(after(image, [led_by(image, T, 0, 3, (3, 1, 2))]))
    assert (partition.leader, partition.replicas, partition.leader_epoch) == (3, (3, 1, 2), 1)
    assert led_by(image, T, 0, 2, (1, 2, 3)).replicas is None


REPLICAS = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)


@given(start=REPLICAS, targets=st.lists(REPLICAS, min_size=1, max_size=4), data=st.data())
def test_whatever_is_asked_for_there_is_always_a_leader_in_sync_and_the_last_wish_comes_true(
    start: list[int], targets: list[list[int]], data: st.DataObject
) -> None:
    image = a_topic(*start)
    for target in targets:
        image = move(image, *target)
        joins = data.draw(st.sets(st.sampled_from(the(image).replicas)))
        isr = [replica for replica in the(image).replicas if replica in joins or replica in the(image).isr]
        image = complete(with_isr(image, *isr))
        partition = the(image)
        assert partition.leader in partition.isr
        assert set(partition.isr) <= set(partition.replicas)
        assert set(partition.adding_replicas) <= set(partition.replicas) - set(partition.removing_replicas)
    assert the(caught_up(image)).replicas == tuple(targets[-1])


class TestRequests:
    def alter(
        self, *wanted: tuple[str, int, list[int] | None], allow_replication_factor_change: bool = True
    ) -> tuple[list[ReassignablePartitionResponse], MetadataImage]:
        controller = a_controller(4)
        create(controller, "t", partitions=2, replication_factor=2)
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
                )
                for name, index, replicas in wanted
            ],
            allow_replication_factor_change=allow_replication_factor_change,
        )
        response = commit(controller, controller.alter_partition_reassignments(request))
        assert response.error_code == ErrorCode.NONE
        return [partition for topic in response.responses for partition in topic.partitions], controller.image

    def test_each_partition_has_its_own_answer(self) -> None:
        answers, image = self.alter(
            ("t", 0, [1, 2, 3, 4]), ("t", 7, [1]), ("nobody", 0, [1]), ("t", 1, [9]), ("t", 1, []), ("t", 1, [1, 1])
        )
        assert [answer.error_code for answer in answers] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ]
        assert len(image.topics["t"].partitions[0].adding_replicas) == 2
        assert image.topics["t"].partitions[1].adding_replicas == ()

    def test_a_partition_can_be_named_once(self) -> None:
        answers, _ = self.alter(("t", 0, [1, 2, 3]), ("t", 0, [3, 4]))
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]

    def test_nothing_can_be_taken_back_that_is_not_under_way(self) -> None:
        answers, _ = self.alter(("t", 0, None))
        assert answers[0].error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    def test_the_number_of_replicas_changes_only_if_it_may(self) -> None:
        answers, _ = self.alter(("t", 0, [1, 2, 3]), allow_replication_factor_change=False)
        assert answers[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        answers, _ = self.alter(("t", 0, [3, 4]), allow_replication_factor_change=False)
        assert answers[0].error_code == ErrorCode.NONE

    def test_what_is_under_way_is_listed(self) -> None:
        image = with_topic(move(a_topic(1, 2), 3, 2), "u", (1,))
        everything = list_partition_reassignments(image, ListPartitionReassignmentsRequest(topics=None))
        assert [topic.name for topic in everything.topics] == ["t"]
        (partition,) = everything.topics[0].partitions
        assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((3, 2, 1), (3,), (1,))

    def test_only_what_is_asked_for_is_listed(self) -> None:
        image = move(a_topic(1, 2), 3, 2)

        def listed(name: str, index: int) -> int:
            topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[index])]
            return len(list_partition_reassignments(image, ListPartitionReassignmentsRequest(topics=topics)).topics)

        assert (listed("t", 0), listed("t", 1), listed("u", 0)) == (1, 0, 0)


def test_a_change_that_drops_nobody_leaves_the_leader_epoch_alone() -> None:
    record = moved(a_topic(1, 2), T, 0, (1, 2, 3))
    assert record is not None
    assert record.leader == UNCHANGED_LEADER
