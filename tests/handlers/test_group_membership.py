"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what differs by version, and while the coordinator loads."""

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.heartbeat import heartbeat
from ottla.handlers.join_group import join_group
from ottla.handlers.leave_group import leave_group
from ottla.handlers.sync_group import sync_group
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.services import Deferred
from tests.handlers.group_node import GroupNode

JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range")],
)


def loading() -> GroupNode:
    node = GroupNode()
    node.failure = BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return node


def test_a_join_waits_for_its_answer() -> None:
    answer = join_group(JOIN, GroupNode().context(3))

    assert isinstance(answer, Deferred)
    assert not answer.done


def test_a_join_is_told_its_id() -> None:
    answer = GroupNode().ask(join_group, JOIN, api_version=4)

    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("client-")


def test_a_join_is_told_that_the_coordinator_loads() -> None:
    with pytest.raises(BrokerError) as failure:
        loading().ask(join_group, JOIN, api_version=4)

    assert failure.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_sync_is_told_to_join_again_while_the_coordinator_loads() -> None:
    answer = loading().ask(sync_group, SyncGroupRequest(group_id="g", member_id="m"), api_version=3)

    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_heartbeat_is_fine_while_the_coordinator_loads() -> None:
    answer = loading().ask(heartbeat, HeartbeatRequest(group_id="g", member_id="m"), api_version=3)

    assert answer.error_code == ErrorCode.NONE


def test_a_heartbeat_and_a_sync_are_refused_with_the_error_of_the_group() -> None:
    node = GroupNode()

    for handler, request in (
        (heartbeat, HeartbeatRequest(group_id="g", member_id="m")),
        (sync_group, SyncGroupRequest(group_id="g", member_id="m")),
    ):
        assert node.ask(handler, request, api_version=3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_one_member_leaves_before_version_3_and_the_error_is_of_the_whole_answer() -> None:
    answer = GroupNode().ask(leave_group, LeaveGroupRequest(group_id="g", member_id="m"), api_version=2)

    assert (answer.error_code, list(answer.members)) == (ErrorCode.UNKNOWN_MEMBER_ID, [])


def test_several_members_leave_from_version_3_on_and_errors_are_theirs() -> None:
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])

    answer = GroupNode().ask(leave_group, request, api_version=3)

    assert answer.error_code == ErrorCode.NONE
    assert [member.error_code for member in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
