"""The life of a classic group, as its members see it."""

import pytest

from ottla.config import GroupConfig
from ottla.errors import ErrorCode
from ottla.groups.classic import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.groups.group import GENERATION_MAX
from ottla.groups.records import GroupMetadata
from ottla.groups.shard import Caller
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import MemberIdentity
from tests.groups.harness import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Client,
    Host,
    refused,
    settle,
    stable_group,
    subscription,
)
from tests.ticket import Ticket

# Joining


def test_a_newcomer_is_first_given_an_id_from_version_4_on() -> None:
    client = Client(Host(), "g", "a")

    answer = client.join(api_version=4).answer

    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("a-")


def test_a_newcomer_joins_at_once_before_version_4() -> None:
    host = Host()
    ticket = Client(host, "g", "a").join(api_version=3)
    assert ticket.waits

    host.after(DELAY_MS)

    assert ticket.answer.generation_id == 1


def test_version_0_takes_the_session_time_out_for_the_rebalance_time_out() -> None:
    host = Host()
    client = Client(host, "g", "a")
    client.rebalance_ms = -1
    client.learn(_joined(host, client, api_version=0))
    client.sync({})

    (record,) = host.records()

    assert isinstance(record, GroupMetadata)
    assert record.members[0].rebalance_timeout_ms == SESSION_MS


def _joined(host: Host, client: Client, api_version: int = 9) -> Ticket:
    ticket = client.enter(api_version)
    host.after(DELAY_MS)
    return ticket


def test_members_that_start_together_share_one_generation() -> None:
    host = Host()
    clients = [Client(host, "g", name) for name in "abc"]
    tickets = []
    for client in clients:
        tickets.append(client.enter())
        host.after(DELAY_MS - 10)

    host.after(2 * DELAY_MS)

    assert [ticket.answer.generation_id for ticket in tickets] == [1, 1, 1]


def test_the_first_rebalance_is_not_put_off_beyond_the_rebalance_time_out() -> None:
    host = Host()
    first = Client(host, "g", "first")
    first.rebalance_ms = 3 * DELAY_MS
    ticket = first.enter()
    for name in range(20):
        late = Client(host, "g", str(name))
        late.rebalance_ms = 3 * DELAY_MS
        late.enter()
        host.after(DELAY_MS // 2)
        if not ticket.waits:
            break

    assert host.now_ms <= 1_700_000_000_000 + 4 * DELAY_MS


def test_without_a_delay_the_first_member_is_answered_at_once() -> None:
    host = Host(GroupConfig(group_initial_rebalance_delay_ms=0))

    assert Client(host, "g", "a").enter().answer.generation_id == 1


def test_only_the_leader_is_told_of_the_members() -> None:
    host = Host()
    a, b = Client(host, "g", "a"), Client(host, "g", "b")
    a.protocols, b.protocols = [("range", b"A")], [("range", b"B")]
    joined_a, joined_b = a.enter(), b.enter()
    host.after(2 * DELAY_MS)

    assert joined_a.answer.leader == joined_b.answer.leader == joined_a.answer.member_id
    assert [(each.member_id, each.metadata) for each in joined_a.answer.members] == [
        (a.member_id, b"A"),
        (b.member_id, b"B"),
    ]
    assert list(joined_b.answer.members) == []


def test_an_id_that_was_given_out_and_not_used_expires() -> None:
    host = Host()
    client = Client(host, "g", "a")
    client.member_id = client.join().answer.member_id

    host.after(SESSION_MS + 1)

    assert client.join().answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_ids_that_were_given_out() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    b, c = Client(host, "g", "b"), Client(host, "g", "c")
    c.member_id = c.join().answer.member_id
    joined_b = b.enter()

    joined_a = a.join()
    assert joined_a.waits
    joined_c = c.join()

    assert {ticket.answer.generation_id for ticket in (joined_a, joined_b, joined_c)} == {2}


def test_an_unknown_member_is_told_so() -> None:
    host = Host()
    stable_group(host, "a")
    stranger = Client(host, "g", "b")
    stranger.member_id = "b-from-elsewhere"

    assert stranger.join().answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    stranger.group_id = "never-seen"
    assert stranger.join().answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_needs_a_group_id_and_a_session_time_out_within_bounds() -> None:
    host = Host()
    client = Client(host, "", "a")
    assert client.join().answer.error_code == ErrorCode.INVALID_GROUP_ID

    client.group_id = "g"
    for session_ms in (5_999, 1_800_001):
        client.session_ms = session_ms
        assert client.join().answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_join_that_was_refused_leaves_no_group_behind() -> None:
    host = Host()
    client = Client(host, "g", "a")
    client.protocols = []

    assert client.join().answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert host.shard.list_groups() == []


def test_the_group_chooses_the_protocol_with_most_votes_among_those_all_know() -> None:
    host = Host()
    likes = {"a": ["sticky", "range", "other"], "b": ["range", "sticky"], "c": ["range", "sticky"]}
    tickets = []
    for name, names in likes.items():
        client = Client(host, "g", name)
        client.protocols = [(each, b"") for each in names]
        tickets.append(client.enter())
    host.after(2 * DELAY_MS)

    assert {ticket.answer.protocol_name for ticket in tickets} == {"range"}
    assert {ticket.answer.protocol_type for ticket in tickets} == {"consumer"}


@pytest.mark.parametrize(
    ("protocol_type", "names"), [("consumer", ["sticky"]), ("connect", ["range"]), ("consumer", [])]
)
def test_a_member_with_nothing_in_common_with_the_group_is_refused(protocol_type: str, names: list[str]) -> None:
    host = Host()
    stable_group(host, "a")
    client = Client(host, "g", "b")
    client.protocol_type, client.protocols = protocol_type, [(name, b"") for name in names]

    assert client.join().answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert host.state_of("g") == "Stable"


def test_an_empty_group_takes_any_protocol_type() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    a.leave()
    worker = Client(host, "g", "w")
    worker.protocol_type, worker.protocols = "connect", [("sessioned", b"")]

    joined = worker.enter()
    host.after(DELAY_MS)

    assert joined.answer.protocol_type == "connect"
    assert joined.answer.generation_id == 3


def test_a_full_group_takes_nobody() -> None:
    host = Host(GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS, group_max_size=2))
    stable_group(host, "a", "b")

    assert Client(host, "g", "c").join().answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_group_that_became_too_large_loses_those_who_rejoin_last() -> None:
    host = Host()
    clients = stable_group(host, "a", "b", "c")
    host.config = GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS, group_max_size=2)
    host.restart()
    assert host.state_of("g") == "PreparingRebalance"

    answers = [client.join() for client in clients]

    assert answers[2].answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [ticket.answer.error_code for ticket in answers[:2]] == [ErrorCode.NONE, ErrorCode.NONE]


# Rejoining


def test_a_follower_that_rejoins_unchanged_is_told_of_the_current_generation() -> None:
    host = Host()
    _, b = stable_group(host, "a", "b")

    answer = b.join().answer

    assert (answer.generation_id, list(answer.members)) == (1, [])
    assert host.state_of("g") == "Stable"


def test_the_leader_that_rejoins_starts_a_rebalance() -> None:
    host = Host()
    a, _ = stable_group(host, "a", "b")

    assert a.join().waits
    assert host.state_of("g") == "PreparingRebalance"


def test_a_follower_with_a_changed_subscription_starts_a_rebalance() -> None:
    host = Host()
    _, b = stable_group(host, "a", "b")
    b.protocols = [("range", subscription("t", "u"))]

    assert b.join().waits
    assert host.state_of("g") == "PreparingRebalance"


def test_a_join_that_is_repeated_while_the_rebalance_completes_gets_the_same_answer() -> None:
    host = Host()
    client = Client(host, "g", "a")
    first = _joined(host, client)
    client.learn(first)

    again = client.join()

    assert again.answer == first.answer
    assert host.state_of("g") == "CompletingRebalance"


def test_a_join_that_is_repeated_while_it_waits_takes_the_place_of_the_first() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    first = a.join()

    second = a.join()

    assert first.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    b.join()
    assert second.answer.generation_id == 2


def test_a_changed_subscription_while_the_rebalance_completes_starts_another() -> None:
    host = Host()
    a, b = Client(host, "g", "a"), Client(host, "g", "b")
    tickets = a.enter(), b.enter()
    host.after(2 * DELAY_MS)
    a.learn(tickets[0])
    b.learn(tickets[1])
    waiting = b.sync()
    a.protocols = [("range", subscription("other"))]

    assert a.join().waits
    assert waiting.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


# Syncing


def test_everybody_gets_the_assignment_that_the_leader_gave() -> None:
    host = Host()
    a, b = Client(host, "g", "a"), Client(host, "g", "b")
    tickets = a.enter(), b.enter()
    host.after(2 * DELAY_MS)
    a.learn(tickets[0])
    b.learn(tickets[1])

    early = b.sync()
    assert early.waits
    led = a.sync({a.member_id: b"A", b.member_id: b"B"})

    assert (led.answer.assignment, early.answer.assignment) == (b"A", b"B")
    assert b.sync().answer.assignment == b"B"
    assert (led.answer.protocol_type, led.answer.protocol_name) == ("consumer", "range")


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    host = Host()
    client = Client(host, "g", "a")
    client.learn(_joined(host, client))

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
    a, b = Client(host, "g", "a"), Client(host, "g", "b")
    tickets = a.enter(), b.enter()
    host.after(2 * DELAY_MS)
    a.learn(tickets[0])
    b.learn(tickets[1])
    first = b.sync()

    second = b.sync()
    a.sync({b.member_id: b"B"})

    assert first.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.answer.assignment == b"B"


# Heartbeats and sessions


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
    client.learn(_joined(host, client))

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


# Leaving


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
    a, b = Client(host, "g", "a"), Client(host, "g", "b")
    tickets = a.enter(), b.enter()
    host.after(2 * DELAY_MS)
    a.learn(tickets[0])
    b.learn(tickets[1])
    waiting = b.sync()

    b.leave()

    assert waiting.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


# Generations


def test_a_generation_after_the_last_is_the_first_again() -> None:
    host = Host()
    record = GroupMetadata(
        group_id="g",
        protocol_type="consumer",
        generation=GENERATION_MAX,
        protocol=None,
        leader_id=None,
        state_timestamp_ms=host.now_ms,
        members=(),
    )
    host.shard.replay(record)

    client = Client(host, "g", "a")

    assert client.learn(_joined(host, client)).generation_id == 1


def test_a_protocol_named_twice_counts_once() -> None:
    host = Host()
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"1")] * 2,
    )
    joined = host.call(lambda shard, ticket, now_ms: shard.join_group(request, Caller("a", "/h", 0), ticket, now_ms))
    other = Client(host, "g", "b").enter()
    host.after(2 * DELAY_MS)

    assert joined.answer.protocol_name == other.answer.protocol_name == "range"
