"""OffsetCommit, OffsetFetch and OffsetDelete: what differs by version, and where errors stand."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.offset_commit import offset_commit
from ottla.handlers.offset_delete import offset_delete
from ottla.handlers.offset_fetch import offset_fetch
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.handlers.group_node import FailingCommitNode, GroupNode

COMMIT = OffsetCommitRequest(
    group_id="g",
    topics=[
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="note")
                for index in (1, 2)
            ],
        )
        for name in ("t", "missing")
    ],
)


def errors_of(response: OffsetCommitResponse) -> list[tuple[str, int, int]]:
    return [
        (topic.name, partition.partition_index, partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    ]


def node_with_offsets() -> GroupNode:
    node = GroupNode()
    node.ask(offset_commit, COMMIT, api_version=8)
    return node


def test_partitions_that_do_not_exist_are_told_one_by_one() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert errors_of(GroupNode().ask(offset_commit, COMMIT, api_version=8)) == [
        ("t", 1, ErrorCode.NONE),
        ("t", 2, unknown),
        ("missing", 1, unknown),
        ("missing", 2, unknown),
    ]


def test_a_commit_that_fails_is_told_in_every_partition() -> None:
    answer = FailingCommitNode().ask(offset_commit, COMMIT, api_version=8)

    assert {error for _, _, error in errors_of(answer)} == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("api_version", [1, 2, 7])
def test_one_group_is_fetched_up_to_version_7(api_version: int) -> None:
    request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])])

    answer = node_with_offsets().ask(offset_fetch, request, api_version)

    assert [
        (at.partition_index, at.committed_offset, at.metadata, at.error_code) for at in answer.topics[0].partitions
    ] == [(0, -1, "", 0), (1, 7, "note", 0)]
    assert (answer.error_code, list(answer.groups)) == (ErrorCode.NONE, [])


def test_no_topics_at_all_means_all_of_them() -> None:
    answer = node_with_offsets().ask(offset_fetch, OffsetFetchRequest(group_id="g", topics=None), api_version=7)

    assert [(topic.name, [at.partition_index for at in topic.partitions]) for topic in answer.topics] == [("t", [1])]


def test_several_groups_are_fetched_from_version_8_on() -> None:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="g", topics=None),
            OffsetFetchRequestGroup(
                group_id="other", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[1])]
            ),
        ]
    )

    answer = node_with_offsets().ask(offset_fetch, request, api_version=8)

    assert [
        (group.group_id, [at.committed_offset for topic in group.topics for at in topic.partitions])
        for group in answer.groups
    ] == [("g", [7]), ("other", [-1])]


def test_a_fetch_that_fails_is_told_where_the_version_has_a_place_for_it() -> None:
    node = GroupNode()
    node.failure = BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    one = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    assert node.ask(offset_fetch, one, api_version=1).topics[0].partitions[0].error_code == loading
    assert node.ask(offset_fetch, one, api_version=2).error_code == loading
    assert [group.error_code for group in node.ask(offset_fetch, several, api_version=8).groups] == [loading]


def test_offsets_are_deleted_partition_by_partition() -> None:
    node = node_with_offsets()
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name="t", partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in (1, 9)]
            )
        ],
    )

    answer = node.ask(offset_delete, request, api_version=0)

    assert [at.error_code for at in answer.topics[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert node.shard.list_groups() == []
