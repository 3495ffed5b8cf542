"""Out of a classic group, by one's own wish."""

from ottla.errors import ErrorCode
from ottla.groups.records import GroupMetadata
from ottla.protocol.messages.leave_group import MemberIdentity
from tests.groups.harness import (
    Client,
    Host,
    joined_pair,
    refused,
    stable_group,
)


def test_the_last_to_leave_makes_the_group_empty_and_that_is_written() -> None:
    host = Host()
    (a,) = stable_group(host, "a")

    assert [member.error_code for member in a.leave().members] == [ErrorCode.NONE]

    assert host.state_of("g") == "Empty"
    record = host.records()[-1]
    assert isinstance(record, GroupMetadata)
    assert (record.generation, record.members, record.protocol) == (2, (), None)


def test_leaving_starts_a_rebalance_for_those_who_stay() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")

    a.leave()

    assert refused(b.heartbeat) is ErrorCode.REBALANCE_IN_PROGRESS
    assert b.join().answer.leader == b.member_id


def test_several_leave_at_once_and_each_is_told_how_it_went() -> None:
    host = Host()
    a, b, _ = stable_group(host, "a", "b", "c")
    newcomer_id = Client(host, "g", "d").join().answer.member_id
    leavers = [
        MemberIdentity(member_id=a.member_id, reason="shutting down"),
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id=newcomer_id),
        MemberIdentity(member_id="", group_instance_id="no-such-instance"),
        MemberIdentity(member_id=b.member_id),
    ]

    response = host.call(lambda shard, _, now_ms: shard.leave_group("g", leavers, now_ms)).answer

    assert [member.error_code for member in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert response.error_code == ErrorCode.NONE
    assert [member.client_id for member in host.describe("g").members] == ["c"]


def test_leaving_a_group_that_is_not_there_is_told_per_member() -> None:
    host = Host()
    leavers = [MemberIdentity(member_id="a")]

    response = host.call(lambda shard, _, now_ms: shard.leave_group("never-seen", leavers, now_ms)).answer

    assert [member.error_code for member in response.members] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_an_id_that_leaves_before_it_was_used_disturbs_nobody() -> None:
    host = Host()
    stable_group(host, "a")
    newcomer = Client(host, "g", "b")
    newcomer.member_id = newcomer.join().answer.member_id

    newcomer.leave()

    assert host.state_of("g") == "Stable"


def test_who_leaves_while_waiting_is_answered() -> None:
    host = Host()
    a, _ = stable_group(host, "a", "b")
    waiting = a.join()

    a.leave()

    assert waiting.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_removed_while_waiting_for_an_assignment_is_answered() -> None:
    host = Host()
    _, b = joined_pair(host)
    waiting = b.sync()

    b.leave()

    assert waiting.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
