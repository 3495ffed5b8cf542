import asyncio
from typing import Any

import pytest

from ottla.client.admin import Admin
from ottla.client.settings import AdminConfig
from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.runtime.metadata import NOBODY
from tests.node_rig import NodeRig, with_node


def named(*names: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create)


def test_a_topic_that_is_asked_for_comes_to_be() -> None:
    async def scenario(rig: NodeRig) -> None:
        topic = (await rig.ask(named("new"))).topics[0]
        assert topic.error_code == ErrorCode.NONE
        assert [partition.leader_id for partition in topic.partitions] == [1, 1, 1]
        assert topic.topic_id != bytes(16)
        assert (await rig.produce("new", b"x")).error_code == ErrorCode.NONE

    with_node(scenario, num_partitions=3)


@pytest.mark.parametrize("settings", [{}, {"auto_create_topics_enable": False}])
def test_unless_the_client_or_the_broker_does_not_want_that(settings: dict[str, Any]) -> None:
    async def scenario(rig: NodeRig) -> None:
        topic = (await rig.ask(named("new", create=bool(settings)))).topics[0]
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "new" not in rig.node.image.topics

    with_node(scenario, **settings)


@pytest.mark.parametrize("name", ["", "..", "with space", "x" * 250, "ümlaut"])
def test_invalid_names_are_told_apart_from_unknown_ones(name: str) -> None:
    async def scenario(rig: NodeRig) -> None:
        topic = (await rig.ask(named(name))).topics[0]
        assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_node(scenario)


def test_null_asks_for_all_and_an_empty_list_for_none_save_in_version_0() -> None:
    async def scenario(rig: NodeRig) -> None:
        await rig.create("a")
        await rig.create("b")

        async def names(topics: list[MetadataRequestTopic] | None, version: int) -> list[str]:
            return [topic.name for topic in (await rig.ask(MetadataRequest(topics=topics), version)).topics]

        assert await names(None, 12) == ["a", "b"]
        assert await names([], 12) == []
        assert await names([], 0) == ["a", "b"]

    with_node(scenario)


def test_topics_can_be_asked_for_by_id() -> None:
    async def scenario(rig: NodeRig) -> None:
        topic_id = (await rig.create("t")).topic_id
        request = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=topic_id), MetadataRequestTopic(topic_id=b"?" * 16)]
        )
        known, unknown = (await rig.ask(request)).topics
        assert (known.name, known.error_code) == ("t", ErrorCode.NONE)
        assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)

    with_node(scenario)


def test_the_broker_is_told_with_the_address_that_clients_can_reach() -> None:
    async def scenario(rig: NodeRig) -> None:
        answer = await rig.ask(named())
        (broker,) = answer.brokers
        assert (broker.node_id, broker.host, broker.port, broker.rack) == (4, "queue.example", 1234, "r1")
        assert answer.controller_id == 4
        assert answer.cluster_id

    with_node(scenario, node_id=4, rack="r1", advertised_address="queue.example", advertised_port=1234)


def test_in_an_election_clients_are_told_of_this_node_and_tools_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: NodeRig) -> None:
        monkeypatch.setattr(rig.node._metadata, "controller_id", NOBODY)

        assert (await rig.ask(named())).controller_id == 4
        assert (await rig.ask(DescribeClusterRequest())).controller_id == NOBODY
        await asyncio.to_thread(create_topic, f"127.0.0.1:{rig.node.port}", "asked-meanwhile")
        assert "asked-meanwhile" in rig.node.image.topics

    with_node(scenario, node_id=4)


@pytest.mark.parametrize("elected", [4, 9])
def test_a_controller_that_clients_are_not_told_of_is_not_named(elected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(rig: NodeRig) -> None:
        monkeypatch.setattr(rig.node._metadata, "controller_id", elected)

        assert (await rig.ask(named())).controller_id == 4

    with_node(scenario, node_id=4)


def create_topic(bootstrap: str, name: str) -> None:
    with Admin(AdminConfig(bootstrap_servers=bootstrap, request_timeout_ms=10_000)) as admin:
        admin.create_topic(name)
