"""APIs that tell what a node is and holds: versions, coordinators, disks, producers."""

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.registry import apis
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.node_rig import NodeRig, with_node


def test_what_is_advertised_is_what_is_served_and_produce_from_version_0() -> None:
    async def scenario(rig: NodeRig) -> None:
        answer = await rig.ask(ApiVersionsRequest())
        told = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert told == {key: api.advertised for key, api in apis().items()}
        assert told[0] == (0, 13)
        assert told[18] == (0, 4)
        assert 71 not in told, "telemetry is not implemented, and clients would use it by themselves"

    with_node(scenario)


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_the_coordinator_of_every_group_is_this_node(version: int) -> None:
    async def scenario(rig: NodeRig) -> None:
        answer = await rig.ask(FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g", "h"]), version)
        found = answer.coordinators if version >= 4 else [answer]
        assert [(one.error_code, one.node_id, one.port) for one in found] == [(0, 1, rig.node.port)] * len(found)
        assert "__consumer_offsets" in rig.node.image.topics

    with_node(scenario)


def test_there_is_no_coordinator_for_share_groups() -> None:
    async def scenario(rig: NodeRig) -> None:
        answer = await rig.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["s"]))
        assert answer.coordinators[0].error_code == ErrorCode.INVALID_REQUEST

    with_node(scenario)


def test_the_size_of_partitions_is_told() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t", 2)
        await rig.produce("t", b"x" * 1_000)
        wanted = DescribableLogDirTopic(topic="t", partitions=[0, 1, 7])
        (result,) = (await rig.ask(DescribeLogDirsRequest(topics=[wanted]))).results
        sizes = {p.partition_index: p.partition_size for p in result.topics[0].partitions}
        assert set(sizes) == {0, 1}
        assert sizes[0] > 1_000
        assert sizes[1] == 0
        everything = (await rig.ask(DescribeLogDirsRequest(topics=None))).results[0]
        assert [topic.name for topic in everything.topics] == ["t"]

    with_node(scenario, data_dir=".")


def test_idempotent_producers_are_told() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("t")
        await rig.produce("t", b"a", b"b", producer_id=9, producer_epoch=3, base_sequence=0)
        request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 5])])
        known, unknown = (await rig.ask(request)).topics[0].partitions
        (producer,) = known.active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 3, 1)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_node(scenario)
