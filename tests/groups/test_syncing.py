"""How the members of a classic group get what their leader assigned."""

from ottla.errors import ErrorCode
from tests.groups.harness import (
    DELAY_MS,
    REBALANCE_MS,
    Client,
    Host,
    joined_alone,
    joined_pair,
    refused,
    stable_group,
)


def test_everybody_gets_the_assignment_that_the_leader_gave() -> None:
    host = Host()
    a, b = joined_pair(host)

    early = b.sync()
    assert early.waits
    led = a.sync({a.member_id: b"A", b.member_id: b"B"})

    assert (led.answer.assignment, early.answer.assignment) == (b"A", b"B")
    assert b.sync().answer.assignment == b"B"
    assert (led.answer.protocol_type, led.answer.protocol_name) == ("consumer", "range")


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    host = Host()
    client = Client(host, "g", "a")
    client.learn(joined_alone(host, client))

    assert client.sync({}).answer.assignment == b""


def test_a_sync_is_refused_outside_its_generation_and_by_strangers() -> None:
    host = Host()
    (a,) = stable_group(host, "a")

    assert refused(lambda: a.sync(generation=7)) is ErrorCode.ILLEGAL_GENERATION
    a.member_id = "someone"
    assert refused(a.sync) is ErrorCode.UNKNOWN_MEMBER_ID
    a.group_id = "never-seen"
    assert refused(a.sync) is ErrorCode.UNKNOWN_MEMBER_ID
    a.group_id = ""
    assert refused(a.sync) is ErrorCode.INVALID_GROUP_ID


def test_a_sync_during_the_next_rebalance_is_told_to_join() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    a.join()

    assert refused(b.sync) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_names_its_protocol_from_version_5_on() -> None:
    host = Host()
    (a,) = stable_group(host, "a")

    assert refused(lambda: a.sync(api_version=5)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (
        refused(lambda: a.sync(api_version=5, protocol_type="consumer", protocol_name="sticky"))
        is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert (
        refused(lambda: a.sync(api_version=5, protocol_type="connect", protocol_name="range"))
        is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    assert a.sync(api_version=5, protocol_type="consumer", protocol_name="range").answer.assignment == b"a"


def test_members_that_never_sync_are_removed_when_time_is_up() -> None:
    host = Host()
    a, b = Client(host, "g", "a"), Client(host, "g", "b")
    a.session_ms = b.session_ms = 2 * REBALANCE_MS
    tickets = a.enter(), b.enter()
    host.after(2 * DELAY_MS)
    a.learn(tickets[0])
    b.learn(tickets[1])
    a.sync({a.member_id: b"A"})

    host.after(REBALANCE_MS)

    assert [member.client_id for member in host.describe("g").members] == ["a"]
    assert refused(a.heartbeat) is ErrorCode.REBALANCE_IN_PROGRESS
    assert refused(b.heartbeat) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_that_is_repeated_while_it_waits_takes_the_place_of_the_first() -> None:
    host = Host()
    a, b = joined_pair(host)
    first = b.sync()

    second = b.sync()
    a.sync({b.member_id: b"B"})

    assert first.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.answer.assignment == b"B"
