"""What changes at once when configs about leaders do."""

from dataclasses import replace

import pytest

from ottla.config import BrokerConfig, LogConfig
from ottla.errors import ErrorCode
from ottla.metadata.image import NO_LEADER
from ottla.protocol.messages import alter_configs as legacy
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.metadata_records import ConfigRecord
from tests.metadata.cluster import topic
from tests.metadata.rig import Rig
from tests.metadata.test_heartbeats import SESSION_MS, a_rig, create

TOPIC, BROKER = 2, 4


def set_config(rig: Rig, name: str, value: str, *, type_: int = TOPIC, resource: str = "t", only: bool = False) -> int:
    entry = incremental.AlterableConfig(name=name, config_operation=0, value=value)
    resources = [incremental.AlterConfigsResource(resource_type=type_, resource_name=resource, configs=[entry])]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=only)
    response = rig.commit(rig.controller.incremental_alter_configs(request))
    assert response is not None
    return response.responses[0].error_code


@pytest.fixture
def below() -> Rig:
    """A partition that needs two in sync and has one; another replica is eligible."""
    rig = a_rig()
    create(rig, replicas=2, min_isr=2)
    rig.kill(rig.partition().replicas[1])
    rig.pass_ms(SESSION_MS + 200)
    assert rig.partition().eligible_leader_replicas == (rig.partition().replicas[1],)
    return rig


def test_who_is_not_needed_for_a_commit_any_more_is_not_eligible_any_more(below: Rig) -> None:
    below.written = []
    assert set_config(below, "min.insync.replicas", "1") == ErrorCode.NONE
    assert below.partition().eligible_leader_replicas == ()
    assert isinstance(below.written[0], ConfigRecord)
    assert len(below.written) == 2, "both are one batch"


def test_the_old_way_to_set_configs_does_the_same(below: Rig) -> None:
    """It puts back what it does not name: here to a minimum of one."""
    resources = [legacy.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])]
    below.commit(below.controller.alter_configs(legacy.AlterConfigsRequest(resources=resources)))
    assert below.partition().eligible_leader_replicas == ()


def test_a_higher_minimum_makes_nobody_eligible_or_not(below: Rig) -> None:
    before = below.partition()
    set_config(below, "min.insync.replicas", "3")
    assert below.partition() == replace(before, partition_epoch=before.partition_epoch + 1)


def test_a_leader_that_does_not_know_of_a_higher_minimum_can_not_drop_replicas() -> None:
    """It would go on committing without those who are eligible from then on."""
    rig = a_rig()
    create(rig)
    before, key = rig.partition(), (rig.image.topics["t"].topic_id, 0)
    set_config(rig, "min.insync.replicas", "2")
    alone = [before.leader]
    code = rig.alter(key, alone, partition_epoch=before.partition_epoch)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert rig.alter(key, alone) == ErrorCode.NONE
    assert len(rig.partition().eligible_leader_replicas) == 2


def test_the_file_of_the_controllers_node_makes_nobody_eligible() -> None:
    """A leader may have another file, and commit by itself."""
    rig = Rig(BrokerConfig(log=LogConfig(min_insync_replicas=2)))
    for broker_id in (1, 2):
        rig.start(broker_id)
    create_with(rig, "t", {}, replicas=2)
    rig.kill(rig.partition().replicas[1])
    rig.pass_ms(SESSION_MS + 200)
    assert rig.partition().eligible_leader_replicas == ()


def test_only_asking_changes_nothing(below: Rig) -> None:
    before = below.image
    set_config(below, "min.insync.replicas", "1", only=True)
    assert below.image is before


def test_the_default_of_all_brokers_counts_for_topics_that_set_nothing() -> None:
    rig = a_rig()
    assert set_config(rig, "min.insync.replicas", "2", type_=BROKER, resource="") == ErrorCode.NONE
    for name, configs in (("t", {}), ("own", {"min.insync.replicas": "2"})):
        create_with(rig, name, configs)
    rig.kill(1)
    rig.pass_ms(SESSION_MS + 200)
    rig.kill(2)
    rig.pass_ms(SESSION_MS + 200)
    assert rig.partition("t").eligible_leader_replicas != ()
    assert set_config(rig, "min.insync.replicas", "1", type_=BROKER, resource="") == ErrorCode.NONE
    assert rig.partition("t").eligible_leader_replicas == ()
    assert rig.partition("own").eligible_leader_replicas != ()


def test_one_broker_can_not_have_a_minimum_of_its_own() -> None:
    """The controller must know which one a leader goes by, whoever leads."""
    rig = a_rig()
    assert set_config(rig, "min.insync.replicas", "2", type_=BROKER, resource="1") == ErrorCode.INVALID_CONFIG


def test_allowing_unclean_elections_brings_a_partition_back_at_once() -> None:
    rig = a_rig(2)
    create(rig, replicas=2)
    first, second = rig.partition().replicas
    rig.kill(second)
    rig.pass_ms(SESSION_MS + 200)
    rig.kill(first)
    rig.pass_ms(SESSION_MS + 200)
    rig.start(second)
    assert rig.partition().leader == NO_LEADER
    rig.unclean.add("t")
    set_config(rig, "unclean.leader.election.enable", "true")
    partition = rig.partition()
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (second, (second,), 1)


def create_with(rig: Rig, name: str, configs: dict[str, str], replicas: int = 3) -> None:
    rig.commit(rig.controller.create_topics(CreateTopicsRequest(topics=[topic(name, 1, replicas, configs)])))
