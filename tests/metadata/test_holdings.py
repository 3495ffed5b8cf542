from ottla.metadata.holdings import Holdings
from ottla.metadata.image import PartitionImage
from ottla.metadata.state import MetadataState

A, B = b"A" * 16, b"B" * 16


def partition(
    leader: int, replicas: tuple[int, ...], isr: tuple[int, ...], adding: tuple[int, ...] = ()
) -> PartitionImage:
    return PartitionImage(
        leader=leader, leader_epoch=0, replicas=replicas, isr=isr, partition_epoch=0, adding_replicas=adding
    )


def test_partitions_are_found_by_what_a_broker_is_to_them() -> None:
    holdings = Holdings(MetadataState().image)
    holdings.partition_changed(A, 0, None, partition(1, (1, 2, 3), (1, 2)))
    holdings.partition_changed(A, 1, None, partition(-1, (2, 3), (), adding=(3,)))
    assert holdings.held_by(3) == {(A, 0), (A, 1)}
    assert holdings.shared_in_sync_at(2) == {(A, 0)}
    assert holdings.shared_led_by(1) == {(A, 0)}
    assert holdings.leaderless == holdings.reassigning == {(A, 1)}
    assert holdings.held_by(9) == holdings.shared_in_sync_at(9) == holdings.shared_led_by(9) == set()


def test_a_partition_with_one_replica_is_not_shared() -> None:
    holdings = Holdings(MetadataState().image)
    alone, shared = partition(1, (1,), (1,)), partition(1, (1, 2), (1, 2))
    holdings.partition_changed(B, 0, None, alone)
    assert (holdings.held_by(1), holdings.shared_in_sync_at(1), holdings.shared_led_by(1)) == ({(B, 0)}, set(), set())
    holdings.partition_changed(B, 0, alone, shared)
    assert holdings.shared_in_sync_at(1) == holdings.shared_led_by(1) == {(B, 0)}
    holdings.partition_changed(B, 0, shared, alone)
    assert holdings.shared_in_sync_at(1) == holdings.held_by(2) == set()


def test_what_is_gone_is_nowhere() -> None:
    holdings = Holdings(MetadataState().image)
    was = partition(-1, (1, 2), (), adding=(2,))
    holdings.partition_changed(A, 0, None, was)
    holdings.partition_changed(A, 0, was, None)
    assert holdings.held_by(1) == holdings.leaderless == holdings.reassigning == set()
