"""Who is in sync, who is eligible, who leads: one partition at a time."""

from typing import Any

import pytest

from ottla.metadata.image import NO_LEADER, PartitionImage
from ottla.metadata.partition_change import Election, Recovery, change
from ottla.metadata.state import changed_partition
from ottla.protocol.messages.metadata_records import PartitionChangeRecord

ALL = frozenset({1, 2, 3})


def a_partition(leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), **fields: Any) -> PartitionImage:
    return PartitionImage(
        leader=leader, leader_epoch=5, replicas=fields.pop("replicas", (1, 2, 3)), isr=isr, partition_epoch=9, **fields
    )


def decided(
    partition: PartitionImage, *, active: frozenset[int] = ALL, min_isr: int = 1, **options: Any
) -> PartitionChangeRecord | None:
    return change(bytes(16), 0, partition, is_active=active.__contains__, min_insync_replicas=min_isr, **options)


def after(partition: PartitionImage, **options: Any) -> PartitionImage:
    record = decided(partition, **options)
    assert record is not None
    return changed_partition(partition, record)


def test_nothing_to_change_is_no_record() -> None:
    assert decided(a_partition()) is None


def test_the_leader_stays_while_it_can() -> None:
    changed = after(a_partition(leader=2), isr=(1, 2))
    assert (changed.leader, changed.isr, changed.leader_epoch, changed.partition_epoch) == (2, (1, 2), 5, 10)


def test_the_next_leader_is_the_first_replica_in_sync() -> None:
    changed = after(a_partition(), isr=(3, 2), active=ALL - {1})
    assert (changed.leader, changed.leader_epoch) == (2, 6)


def test_leadership_goes_back_to_the_preferred_replica_only_when_that_is_asked_for() -> None:
    partition = a_partition(leader=3)
    assert decided(partition) is None
    changed = after(partition, election=Election.PREFERRED)
    assert (changed.leader, changed.leader_epoch, changed.isr) == (1, 6, (1, 2, 3))


def test_a_preferred_replica_that_is_not_in_sync_does_not_lead() -> None:
    assert decided(a_partition(leader=3, isr=(2, 3)), election=Election.PREFERRED) is None


@pytest.mark.parametrize(("min_isr", "eligible"), [(1, ()), (2, (2,)), (3, (2, 3))])
def test_who_leaves_below_the_minimum_is_eligible(min_isr: int, eligible: tuple[int, ...]) -> None:
    partition = a_partition(isr=(1, 2), eligible_leader_replicas=(3,) if min_isr == 3 else ())
    assert after(partition, isr=(1,), min_isr=min_isr).eligible_leader_replicas == eligible


def test_the_minimum_is_never_more_than_there_are_replicas() -> None:
    partition = a_partition(replicas=(1, 2), isr=(1,), eligible_leader_replicas=(2,))
    assert after(partition, isr=(1, 2), min_isr=5).eligible_leader_replicas == ()


def test_the_last_in_sync_replica_that_leaves_is_eligible_and_remembered() -> None:
    changed = after(a_partition(isr=(1,)), isr=(), active=ALL - {1})
    assert (changed.leader, changed.isr, changed.eligible_leader_replicas) == (NO_LEADER, (), (1,))
    assert changed.last_known_elr == (1,)


def test_an_eligible_replica_leads_when_it_is_back_and_not_another() -> None:
    gone = a_partition(NO_LEADER, (), eligible_leader_replicas=(2,), last_known_elr=(2,))
    assert decided(gone, active=ALL - {2}) is None
    changed = after(gone)
    assert (changed.leader, changed.isr, changed.eligible_leader_replicas) == (2, (2,), ())
    assert (changed.last_known_elr, changed.leader_recovery_state) == ((), Recovery.RECOVERED)


def test_others_stay_eligible_while_their_leader_can_not_commit_alone() -> None:
    gone = a_partition(NO_LEADER, (), eligible_leader_replicas=(2, 3))
    assert after(gone, min_isr=2).eligible_leader_replicas == (3,)
    assert after(gone, min_isr=1).eligible_leader_replicas == ()


def test_lost_data_is_not_eligible() -> None:
    changed = after(a_partition(isr=(1, 2)), isr=(2,), min_isr=2, lost=(1,), active=ALL - {1})
    assert (changed.leader, changed.isr, changed.eligible_leader_replicas) == (2, (2,), ())


def test_nobody_leads_what_everybody_has_lost() -> None:
    changed = after(a_partition(isr=(1,)), isr=(), lost=(1,), active=ALL - {1})
    assert (changed.leader, changed.eligible_leader_replicas, changed.last_known_elr) == (NO_LEADER, (), (2, 3))
    assert decided(changed) is None


def test_an_unclean_election_goes_by_who_has_anything() -> None:
    """1 has lost everything, then 2 too: what is left is at 3."""
    one = after(a_partition(isr=(1,)), isr=(), lost=(1,), active=ALL - {1})
    assert after(one, election=Election.UNCLEAN).leader == 2
    two = after(one, isr=(), lost=(2,), active=ALL - {2})
    assert two.last_known_elr == (3,)
    assert after(two, election=Election.UNCLEAN).leader == 3


def test_an_unclean_election_takes_who_led_last_then_the_first_that_is_there() -> None:
    gone = a_partition(NO_LEADER, (), eligible_leader_replicas=(), last_known_elr=(3,))
    for active, leader in ((ALL, 3), (ALL - {3}, 1), (ALL - {1, 3}, 2)):
        changed = after(gone, election=Election.UNCLEAN, active=active)
        assert (changed.leader, changed.isr, changed.leader_recovery_state) == (leader, (leader,), Recovery.RECOVERING)


def test_an_unclean_election_is_clean_if_it_can_be() -> None:
    gone = a_partition(NO_LEADER, (), eligible_leader_replicas=(2,))
    changed = after(gone, election=Election.UNCLEAN)
    assert (changed.leader, changed.leader_recovery_state) == (2, Recovery.RECOVERED)


def test_an_unclean_election_forgets_the_eligible_ones_that_are_away() -> None:
    gone = a_partition(NO_LEADER, (), eligible_leader_replicas=(2,))
    changed = after(gone, election=Election.UNCLEAN, active=frozenset({3}))
    assert (changed.leader, changed.eligible_leader_replicas) == (3, ())
