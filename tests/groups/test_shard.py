"""A shard as administrators and the runtime see it: lists, descriptions, deletions, restarts, the end."""

import pytest

from ottla.errors import ErrorCode
from ottla.groups.records import GroupDeleted, GroupMetadata, OffsetCommitted, OffsetDeleted
from ottla.groups.shard import Caller
from tests.groups.harness import (
    DELAY_MS,
    SESSION_MS,
    Client,
    Host,
    refused,
    settle,
    stable_group,
    subscription,
)

# Lists and descriptions


def groups_in_every_state(host: Host) -> None:
    stable_group(host, "a", group_id="stable")
    (gone,) = stable_group(host, "b", group_id="empty")
    gone.leave()
    leader, _ = stable_group(host, "c", "d", group_id="preparing")
    leader.join()
    Client(host, "completing", "e").enter()
    host.after(DELAY_MS)
    host.commit("simple", {("t", 0): 1})


def test_groups_are_listed_with_their_state_and_type() -> None:
    host = Host()
    groups_in_every_state(host)

    assert {(each.group_id, each.group_state, each.protocol_type) for each in host.shard.list_groups()} == {
        ("stable", "Stable", "consumer"),
        ("empty", "Empty", "consumer"),
        ("preparing", "PreparingRebalance", "consumer"),
        ("completing", "CompletingRebalance", "consumer"),
        ("simple", "Empty", ""),
    }
    assert {each.group_type for each in host.shard.list_groups()} == {"classic"}


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (["Stable"], [], {"stable"}),
        ([" stable ", "EMPTY"], [], {"stable", "empty", "simple"}),
        (["Dead"], [], set()),
        ([], ["Classic"], {"stable", "empty", "preparing", "completing", "simple"}),
        ([], ["consumer"], set()),
        (["Stable"], ["consumer", "classic"], {"stable"}),
    ],
)
def test_groups_are_listed_by_state_and_type(states: list[str], types: list[str], found: set[str]) -> None:
    host = Host()
    groups_in_every_state(host)

    assert {each.group_id for each in host.shard.list_groups(states, types)} == found


def test_a_stable_group_is_described_with_what_its_members_read() -> None:
    host = Host()
    (a,) = stable_group(host, "a")

    group = host.describe("g")

    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        ErrorCode.NONE,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (a.member_id, "a", "/host")
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), b"a")


def test_of_a_group_that_rebalances_subscriptions_are_not_described() -> None:
    host = Host()
    a, _ = stable_group(host, "a", "b")
    a.join()

    group = host.describe("g")

    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in group.members] == [b"", b""]


def test_a_group_that_is_not_there_is_dead_and_from_version_6_on_an_error() -> None:
    host = Host()

    assert (host.describe("g").group_state, host.describe("g").error_code) == ("Dead", ErrorCode.NONE)
    assert host.describe("g", api_version=6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_operations_are_described_only_if_asked_for() -> None:
    host = Host()
    stable_group(host, "a")
    who = Caller("admin", "/host", 5)

    asked = host.call(lambda shard, _, __: shard.describe_group("g", who, 328)).answer

    assert asked.authorized_operations == 328
    assert host.describe("g").authorized_operations == -(2**31)


# Deletion


def delete(host: Host, group_id: str) -> int:
    error: int = host.call(lambda shard, _, __: shard.delete_group(group_id)).answer.error_code
    return error


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    a.commit({("t", 0): 1, ("t", 1): 2})
    a.leave()

    assert delete(host, "g") == ErrorCode.NONE

    assert host.records()[-3:] == [OffsetDeleted("g", "t", 0), OffsetDeleted("g", "t", 1), GroupDeleted("g")]
    assert host.committed("g") == {}
    assert delete(host, "g") == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_is_not_deleted() -> None:
    host = Host()
    groups_in_every_state(host)

    assert [delete(host, name) for name in ("stable", "preparing", "completing")] == [ErrorCode.NON_EMPTY_GROUP] * 3


def test_whoever_was_about_to_join_a_deleted_group_starts_over() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    a.leave()
    newcomer = Client(host, "g", "b")
    newcomer.member_id = newcomer.join().answer.member_id

    delete(host, "g")

    assert newcomer.join().answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    host.after(10 * SESSION_MS)
    assert host.shard.list_groups() == []


# Restarts


def test_after_a_restart_the_next_heartbeat_just_works() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    a.commit({("t", 0): 7})

    host.restart()

    a.heartbeat()
    b.heartbeat()
    assert b.sync().answer.assignment == b"b"
    assert a.commit({("t", 0): 8}) == {("t", 0): ErrorCode.NONE}
    assert host.committed("g") == {("t", 0): 8}


def test_sessions_start_again_when_the_log_is_loaded() -> None:
    host = Host()
    a, _ = stable_group(host, "a", "b")
    host.now_ms += 10 * SESSION_MS
    host.restart()

    host.after(SESSION_MS - 1)
    a.heartbeat()
    host.after(1)

    assert [member.client_id for member in host.describe("g").members] == ["a"]


def test_a_loaded_shard_asks_for_a_tick_at_once_if_it_has_members_to_watch() -> None:
    host = Host()
    stable_group(host, "a")

    assert host.loaded().next_deadline_ms() == 0


def test_a_rebalance_that_a_restart_interrupts_is_begun_again_by_its_members() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    joined_a = a.join()
    b.learn(b.join())
    a.learn(joined_a)
    assert (a.generation, host.state_of("g")) == (2, "CompletingRebalance")

    host.restart()

    assert host.state_of("g") == "Stable"
    assert refused(a.heartbeat) is ErrorCode.ILLEGAL_GENERATION
    assert refused(b.sync) is ErrorCode.ILLEGAL_GENERATION


def test_after_a_restart_the_group_rebalances_as_before() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    host.restart()
    c = Client(host, "g", "c").enter()

    joined_a, joined_b = a.join(), b.join()

    assert joined_a.answer.leader == a.member_id
    assert {ticket.answer.generation_id for ticket in (joined_a, joined_b, c)} == {2}


def test_offsets_without_a_group_record_make_a_group_of_their_own() -> None:
    host = Host()
    host.shard.replay(OffsetCommitted("g", "t", 0, 5, -1, "", host.now_ms))

    assert host.state_of("g") == "Empty"


def test_a_log_in_which_a_group_ends_before_its_offsets_keeps_these() -> None:
    host = Host()
    host.shard.replay(OffsetCommitted("g", "t", 0, 5, -1, "", host.now_ms))
    host.shard.replay(GroupDeleted("g"))

    assert host.committed("g") == {("t", 0): 5}
    assert host.state_of("g") == "Empty"


def test_records_of_what_is_not_there_change_nothing() -> None:
    host = Host()
    host.shard.replay(OffsetDeleted("g", "t", 0))
    host.shard.replay(GroupDeleted("g"))

    assert host.shard.list_groups() == []


def test_a_record_replaces_the_one_before_it() -> None:
    host = Host()
    a, _ = stable_group(host, "a", "b")
    a.leave()
    host.after(SESSION_MS)

    shard = host.loaded()

    assert isinstance(host.records()[-1], GroupMetadata)
    assert [each.group_state for each in shard.list_groups()] == ["Empty"]


def test_what_a_member_said_last_is_what_a_restart_remembers() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    a.protocols = [("range", subscription("t", "u"))]
    a.session_ms, a.rebalance_ms = SESSION_MS + 1, SESSION_MS + 2
    settle(host, [a], [a.join()])

    host.restart()

    (member,) = host.describe("g").members
    assert member.member_metadata == subscription("t", "u")
    a.heartbeat()
    host.after(SESSION_MS)
    a.heartbeat()


# The end


def test_whoever_waits_is_sent_away_when_the_shard_is_given_up() -> None:
    host = Host()
    a, _ = stable_group(host, "a", "b", group_id="preparing")
    joining = a.join()
    c, d = Client(host, "completing", "c"), Client(host, "completing", "d")
    tickets = c.enter(), d.enter()
    host.after(2 * DELAY_MS)
    c.learn(tickets[0])
    d.learn(tickets[1])
    syncing = d.sync()

    result = host.shard.unload()
    for reply in result.replies:
        host._deliver(reply)

    assert joining.answer.error_code == syncing.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert host.shard.list_groups() == []
    assert host.shard.next_deadline_ms() is None
