"""Heartbeats of a classic group: silence removes a member, and a rebalance goes on without it."""

from ottla.errors import ErrorCode
from ottla.groups.classic import NEW_MEMBER_JOIN_TIMEOUT_MS
from tests.groups.harness import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Client,
    Host,
    joined_alone,
    refused,
    settle,
    stable_group,
    subscription,
)


def test_heartbeats_keep_a_member_and_silence_removes_it() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    for _ in range(10):
        host.after(SESSION_MS - 1)
        a.heartbeat()
        b.heartbeat()

    for _ in range(3):
        host.after(SESSION_MS // 2)
        assert refused(a.heartbeat) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)

    assert [member.client_id for member in host.describe("g").members] == ["a"]
    assert refused(b.heartbeat) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_are_refused_as_clients_expect() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    a.generation = 99
    assert refused(a.heartbeat) is ErrorCode.ILLEGAL_GENERATION
    a.generation = 1

    a.join()
    assert refused(b.heartbeat) is ErrorCode.REBALANCE_IN_PROGRESS
    b.group_id = "never-seen"
    assert refused(b.heartbeat) is ErrorCode.UNKNOWN_MEMBER_ID
    b.group_id = ""
    assert refused(b.heartbeat) is ErrorCode.INVALID_GROUP_ID


def test_heartbeats_are_fine_between_join_and_sync() -> None:
    host = Host()
    client = Client(host, "g", "a")
    client.learn(joined_alone(host, client))

    client.heartbeat()

    assert host.state_of("g") == "CompletingRebalance"


def test_a_member_that_waits_in_a_join_needs_no_heartbeats() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    waiting = a.join()
    for _ in range(5):
        host.after(SESSION_MS - 1)
        assert refused(b.heartbeat) is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.waits

    b.join()

    assert waiting.answer.generation_id == 2


def test_a_member_whose_wait_for_an_assignment_ends_in_a_rebalance_must_be_heard_of_again() -> None:
    host = Host()
    a, b = Client(host, "g", "a", instance_id="a"), Client(host, "g", "b", instance_id="b")
    a.session_ms = 2 * SESSION_MS
    tickets = a.join(), b.join()
    host.after(2 * DELAY_MS)
    a.learn(tickets[0])
    b.learn(tickets[1])
    waiting = b.sync()

    host.after(a.session_ms)
    assert waiting.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    host.after(SESSION_MS)

    assert host.state_of("g") == "Empty"


def test_a_newcomer_whose_client_is_gone_does_not_wait_for_ever() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    a.rebalance_ms = 10 * NEW_MEMBER_JOIN_TIMEOUT_MS
    a.session_ms = 1_800_000
    settle(host, [a], [a.join()])
    lost = Client(host, "g", "lost").enter()

    host.after(NEW_MEMBER_JOIN_TIMEOUT_MS)

    assert lost.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_goes_on_without_those_who_do_not_come_back_in_time() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    a.session_ms = b.session_ms = 10 * REBALANCE_MS
    settle(host, [a, b], [a.join(), b.join()])
    joined = a.join()

    host.after(REBALANCE_MS)

    assert joined.answer.generation_id == 3
    assert [member.member_id for member in joined.answer.members] == [a.member_id]


def test_leadership_passes_on_when_the_leader_does_not_come_back() -> None:
    host = Host()
    a, b, c = stable_group(host, "a", "b", "c")
    for client in (b, c):
        client.protocols = [("range", subscription("t", "new"))]
    joined_b, joined_c = b.join(), c.join()

    host.after(SESSION_MS)

    assert joined_b.answer.leader == joined_c.answer.leader == b.member_id
    assert refused(a.heartbeat) is ErrorCode.UNKNOWN_MEMBER_ID
