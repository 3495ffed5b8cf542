"""Into a classic group: who is let in, when the first generation begins, and which protocol it speaks."""

import pytest

from ottla.config import GroupConfig
from ottla.errors import ErrorCode
from ottla.groups.group import GENERATION_MAX
from ottla.groups.records import GroupMetadata
from ottla.groups.shard import Caller
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.groups.harness import (
    DELAY_MS,
    SESSION_MS,
    Client,
    Host,
    joined_alone,
    stable_group,
)


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
    client.learn(joined_alone(host, client, api_version=0))
    client.sync({})

    (record,) = host.records()

    assert isinstance(record, GroupMetadata)
    assert record.members[0].rebalance_timeout_ms == SESSION_MS


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

    assert client.learn(joined_alone(host, client)).generation_id == 1


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
