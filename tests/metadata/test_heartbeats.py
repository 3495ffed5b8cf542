"""Brokers in and out of service."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata import leadership
from ottla.metadata.controller import REST_MS
from ottla.metadata.image import NO_LEADER
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.metadata.cluster import topic
from tests.metadata.rig import Rig

SESSION_MS = 6_000


def a_rig(brokers: int = 3) -> Rig:
    rig = Rig()
    for broker_id in range(1, brokers + 1):
        rig.start(broker_id)
    return rig


def create(rig: Rig, name: str = "t", partitions: int = 1, replicas: int = 3, min_isr: int = 1) -> None:
    wanted = topic(name, partitions, replicas, {"min.insync.replicas": str(min_isr)})
    response = rig.commit(rig.controller.create_topics(CreateTopicsRequest(topics=[wanted])))
    assert response is not None
    assert response.topics[0].error_code == ErrorCode.NONE


def test_a_broker_starts_fenced_and_is_let_in_when_it_asks() -> None:
    rig = Rig()
    broker = rig.start(1)
    assert (broker.last.is_caught_up, broker.last.is_fenced) == (True, False)
    assert rig.image.brokers[1].is_active


def test_a_broker_that_wants_to_stay_out_stays_out() -> None:
    rig = a_rig()
    broker = rig.start(2)
    assert rig.heartbeat(broker, want_fence=True).is_fenced
    assert rig.heartbeat(broker, want_fence=True).is_fenced
    assert not rig.heartbeat(broker).is_fenced


def test_who_does_not_know_of_its_registration_is_not_let_in() -> None:
    rig = Rig()
    rig.start(1)
    broker = rig.brokers.setdefault(2, type(rig.brokers[1])(2))
    broker.lags, broker.applied = True, rig.offset - 1
    rig.start(2)
    assert (broker.last.is_caught_up, broker.last.is_fenced) == (False, True)
    broker.lags = False
    assert not rig.heartbeat(broker).is_fenced


def test_nor_is_it_let_in_by_the_next_controller() -> None:
    rig = Rig()
    rig.start(1)
    broker = rig.brokers.setdefault(2, type(rig.brokers[1])(2))
    broker.lags = True
    rig.start(2)
    rig.fail_over()
    assert (rig.heartbeat(broker).is_caught_up, broker.last.is_fenced) == (False, True)
    broker.lags = False
    assert not rig.heartbeat(broker).is_fenced


@pytest.mark.parametrize(("broker_id", "broker_epoch"), [(1, 99), (1, -1), (9, 0)])
def test_an_epoch_that_is_not_the_newest_is_refused(broker_id: int, broker_epoch: int) -> None:
    rig = a_rig(1)
    with pytest.raises(BrokerError) as refused:
        rig.controller.heartbeat(BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=broker_epoch), rig.now_ms)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_silent_broker_is_fenced_and_others_lead() -> None:
    rig = a_rig()
    create(rig, partitions=3)
    led = [index for index in range(3) if rig.partition("t", index).leader == 1]
    rig.kill(1)
    rig.pass_ms(SESSION_MS + 200)
    assert rig.image.brokers[1].fenced
    for index in range(3):
        partition = rig.partition("t", index)
        assert partition.leader in (2, 3)
        assert set(partition.isr) == {2, 3}
        assert partition.leader_epoch == (1 if index in led else 0)


def test_gossip_makes_it_quicker() -> None:
    rig = a_rig()
    create(rig)
    rig.kill(1)
    rig.commit(rig.controller.suspect([1]))
    rig.pass_ms(1_300)
    assert rig.image.brokers[1].fenced
    assert not rig.image.brokers[2].fenced


def test_wrong_gossip_fences_nobody() -> None:
    rig = a_rig()
    rig.commit(rig.controller.suspect([1, 2, 3]))
    rig.pass_ms(20_000)
    assert all(broker.is_active for broker in rig.image.brokers.values())


def test_brokers_that_die_together_do_not_lead_in_place_of_each_other() -> None:
    rig = a_rig(4)
    create(rig, partitions=8, replicas=3)
    for broker_id in (1, 2):
        rig.kill(broker_id)
    rig.written = []
    rig.pass_ms(SESSION_MS + 200)
    changes = [record for record in rig.written if isinstance(record, PartitionChangeRecord)]
    assert len({(change.topic_id, change.partition_id) for change in changes}) == len(changes)
    assert all(rig.partition("t", index).leader in (3, 4) for index in range(8))


def test_a_new_controller_gives_everybody_a_whole_session() -> None:
    rig = a_rig()
    rig.kill(1)
    rig.pass_ms(SESSION_MS - 500)
    rig.fail_over()
    rig.pass_ms(SESSION_MS - 500)
    assert not rig.image.brokers[1].fenced
    rig.pass_ms(1_000)
    assert rig.image.brokers[1].fenced
    assert not rig.image.brokers[2].fenced


def test_the_last_replica_leads_again_when_it_is_back() -> None:
    rig = a_rig(2)
    create(rig, replicas=2)
    first, second = rig.partition().replicas
    rig.kill(first)
    rig.pass_ms(SESSION_MS + 200)
    rig.kill(second)
    rig.start(first)
    rig.pass_ms(SESSION_MS + 200)
    assert (rig.partition().leader, rig.partition().isr) == (NO_LEADER, ())
    assert rig.partition().eligible_leader_replicas == (second,)
    rig.start(second)
    assert (rig.partition().leader, rig.partition().isr) == (second, (second,))


def test_a_broker_with_the_only_replicas_comes_and_goes_without_a_change_of_them() -> None:
    rig = a_rig(1)
    create(rig, partitions=100, replicas=1)
    rig.written = []
    rig.start(1)
    assert not [record for record in rig.written if isinstance(record, PartitionChangeRecord)]
    rig.brokers[1].is_stopping = True
    rig.heartbeat(rig.brokers[1])
    assert rig.brokers[1].last.should_shut_down
    assert rig.partition().leader == 1


def test_who_stops_hands_over_first_and_goes_when_all_know() -> None:
    rig = a_rig()
    create(rig, partitions=3)
    broker = rig.brokers[1]
    rig.brokers[3].lags = True
    broker.is_stopping = True
    response = rig.heartbeat(broker)
    assert (response.should_shut_down, response.is_fenced) == (False, False)
    assert rig.image.brokers[1].in_controlled_shutdown
    assert all(rig.partition("t", index).leader != 1 for index in range(3))
    assert all(1 not in rig.partition("t", index).isr for index in range(3))
    rig.pass_ms(1_000)
    assert not broker.last.should_shut_down, "broker 3 does not know"
    rig.brokers[3].lags = False
    rig.pass_ms(1_000)
    assert broker.last.should_shut_down
    assert rig.image.brokers[1].fenced


def test_who_leads_nothing_may_stop_at_once() -> None:
    rig = a_rig()
    rig.brokers[3].is_stopping = True
    response = rig.heartbeat(rig.brokers[3])
    assert (response.should_shut_down, response.is_fenced) == (True, True)


def test_stopping_goes_on_under_another_controller() -> None:
    rig = a_rig()
    create(rig, partitions=3)
    rig.brokers[1].is_stopping = True
    rig.heartbeat(rig.brokers[1])
    rig.fail_over()
    rig.pass_ms(1_500)
    assert rig.brokers[1].last.should_shut_down


def test_who_stops_is_not_let_in_again_but_by_a_registration() -> None:
    rig = a_rig()
    create(rig, partitions=3)
    broker = rig.brokers[1]
    broker.is_stopping = True
    rig.heartbeat(broker)
    rig.pass_ms(1_500)
    broker.is_stopping, broker.is_up = False, True
    assert rig.heartbeat(broker).is_fenced
    rig.start(1)
    assert rig.image.brokers[1].is_active


def test_a_restarted_broker_leaves_its_leaderships_behind() -> None:
    rig = a_rig()
    create(rig, partitions=3)
    rig.start(1)
    assert all(rig.partition("t", index).leader != 1 for index in range(3))
    assert all(1 not in rig.partition("t", index).isr for index in range(3))


def test_what_does_not_fit_one_decision_is_done_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "SWEEP_RECORDS_MAX", 4)
    rig = a_rig()
    create(rig, partitions=15, min_isr=2)
    rig.kill(1)
    rig.pass_ms(SESSION_MS + 500)
    assert rig.image.brokers[1].fenced
    assert all(1 not in rig.partition("t", index).isr for index in range(15))
    fenced = [record for record in rig.written if isinstance(record, BrokerRegistrationChangeRecord)][-1]
    assert (fenced.broker_id, fenced.fenced) == (1, 1)
    for broker_id in (2, 3):
        rig.kill(broker_id)
    rig.pass_ms(SESSION_MS + 500)
    assert all(rig.partition("t", index).leader == NO_LEADER for index in range(15))
    rig.start(2)
    rig.tick_all()
    assert all(rig.partition("t", index).leader == 2 for index in range(15))


def test_a_new_controller_does_what_the_last_one_left_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = a_rig(2)
    create(rig, partitions=9, replicas=2)
    for broker_id in (1, 2):
        rig.kill(broker_id)
    rig.pass_ms(SESSION_MS + 500)
    monkeypatch.setattr(leadership, "SWEEP_RECORDS_MAX", 4)
    rig.start(1)
    assert 0 < sum(rig.partition("t", index).leader == 1 for index in range(9)) < 9
    rig.fail_over()
    rig.tick_all()
    assert all(rig.partition("t", index).leader == 1 for index in range(9))


def test_what_the_log_does_not_take_is_decided_again_after_a_rest() -> None:
    rig = a_rig()
    create(rig)
    rig.kill(1)
    rig.pass_ms(SESSION_MS - 600)
    while not (refused := rig.controller.tick(rig.now_ms).records):
        rig.now_ms += 100
    again_ms = rig.controller.next_deadline_ms()
    assert again_ms == rig.now_ms + REST_MS
    assert rig.controller.tick(again_ms).records == refused


def test_a_partition_that_gets_a_second_replica_while_its_only_one_is_away_waits_for_that_one() -> None:
    rig = a_rig(2)
    create(rig, replicas=1)
    (holder,) = rig.partition().replicas
    other = 3 - holder
    rig.kill(holder)
    rig.pass_ms(SESSION_MS + 200)
    assert rig.partition().leader == holder
    partitions = [ReassignablePartition(partition_index=0, replicas=[holder, other])]
    topics = [ReassignableTopic(name="t", partitions=partitions)]
    rig.commit(rig.controller.alter_partition_reassignments(AlterPartitionReassignmentsRequest(topics=topics)))
    rig.pass_ms(500)
    assert (rig.partition().leader, rig.partition().eligible_leader_replicas) == (NO_LEADER, (holder,))
    rig.start(holder)
    assert rig.partition().leader == holder
