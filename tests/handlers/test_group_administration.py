"""ListGroups, DescribeGroups and DeleteGroups."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.delete_groups import delete_groups
from ottla.handlers.describe_groups import describe_groups
from ottla.handlers.list_groups import list_groups
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from tests.handlers.group_node import GroupNode
from tests.handlers.test_group_offsets import node_with_offsets


def test_groups_are_listed_by_state() -> None:
    node = node_with_offsets()

    def listed(*states: str) -> list[str]:
        answer = node.ask(list_groups, ListGroupsRequest(states_filter=states), api_version=5)
        return [group.group_id for group in answer.groups]

    assert (listed(), listed("Empty"), listed("Stable")) == (["g"], ["g"], [])


def test_groups_are_described_in_the_order_asked_for() -> None:
    request = DescribeGroupsRequest(groups=["missing", "g"])

    answer = node_with_offsets().ask(describe_groups, request, api_version=5)

    assert [(group.group_id, group.group_state) for group in answer.groups] == [("missing", "Dead"), ("g", "Empty")]


@pytest.mark.parametrize(("asked", "operations"), [(False, -(2**31)), (True, 3400)])
def test_operations_are_told_if_asked_for(asked: bool, operations: int) -> None:
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=asked)

    answer = node_with_offsets().ask(describe_groups, request, api_version=5)

    assert answer.groups[0].authorized_operations == operations


def test_a_group_is_deleted_once_however_often_it_is_named() -> None:
    node = node_with_offsets()

    answer = node.ask(delete_groups, DeleteGroupsRequest(groups_names=["g", "missing", "g"]), api_version=2)

    assert [(result.group_id, result.error_code) for result in answer.results] == [
        ("g", ErrorCode.NONE),
        ("missing", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert node.shard.list_groups() == []


def test_a_coordinator_that_is_elsewhere_is_told_group_by_group() -> None:
    node = GroupNode()
    node.failure = BrokerError(ErrorCode.NOT_COORDINATOR)

    described = node.ask(describe_groups, DescribeGroupsRequest(groups=["g"]), api_version=5)
    deleted = node.ask(delete_groups, DeleteGroupsRequest(groups_names=["g"]), api_version=2)

    assert [group.error_code for group in described.groups] == [ErrorCode.NOT_COORDINATOR]
    assert [result.error_code for result in deleted.results] == [ErrorCode.NOT_COORDINATOR]
