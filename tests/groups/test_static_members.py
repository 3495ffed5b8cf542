"""Static members: a consumer that restarts under its instance id keeps its place."""

from ottla.config import GroupConfig
from ottla.errors import ErrorCode
from ottla.groups.records import GroupMetadata
from ottla.protocol.messages.leave_group import MemberIdentity
from tests.groups.harness import DELAY_MS, REBALANCE_MS, SESSION_MS, Client, Host, refused, stable_group, subscription


def reborn(old: Client) -> Client:
    """The same consumer after a restart: it has its instance id, and no member id."""
    return Client(old.host, old.group_id, old.name, instance_id=old.instance_id)


def test_a_static_member_needs_no_second_join() -> None:
    host = Host()
    joined = Client(host, "g", "a", instance_id="a").join()

    host.after(DELAY_MS)

    assert joined.answer.error_code == ErrorCode.NONE
    assert joined.answer.member_id.startswith("a-")


def test_a_restart_disturbs_nobody_and_gives_the_same_assignment() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b", static=True)

    back = reborn(b)
    answer = back.learn(back.join())

    assert (answer.generation_id, host.state_of("g")) == (1, "Stable")
    assert back.member_id != b.member_id
    assert back.sync().answer.assignment == b"b"
    back.heartbeat()
    a.heartbeat()


def test_a_restart_is_written_so_that_the_new_id_survives_the_coordinator() -> None:
    host = Host()
    _, b = stable_group(host, "a", "b", static=True)
    back = reborn(b)
    back.learn(back.join())

    host.restart()

    back.heartbeat()
    assert back.sync().answer.assignment == b"b"


def test_the_old_incarnation_is_fenced() -> None:
    host = Host()
    _, b = stable_group(host, "a", "b", static=True)
    back = reborn(b)
    back.learn(back.join())

    assert refused(b.heartbeat) is ErrorCode.FENCED_INSTANCE_ID
    assert refused(b.sync) is ErrorCode.FENCED_INSTANCE_ID
    assert b.join().answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert set(b.commit({("t", 0): 1}).values()) == {ErrorCode.FENCED_INSTANCE_ID}
    assert [member.error_code for member in b.leave().members] == [ErrorCode.FENCED_INSTANCE_ID]


def test_an_instance_that_the_group_does_not_know_is_an_unknown_member() -> None:
    host = Host()
    (a,) = stable_group(host, "a", static=True)
    a.instance_id = "another"

    assert refused(a.heartbeat) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_is_fenced_when_its_successor_comes() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b", static=True)
    a.join()
    waiting = b.join()
    assert not waiting.waits  # both have joined, so the next generation began
    b.learn(waiting)
    syncing = b.sync()

    reborn(b).join()

    assert syncing.answer.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_returning_leader_is_told_to_skip_the_assignment_from_version_9_on() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b", static=True)
    back = reborn(a)

    answer = back.learn(back.join(api_version=9))

    assert answer.skip_assignment
    assert answer.leader == back.member_id
    assert {member.member_id for member in answer.members} == {back.member_id, b.member_id}


def test_a_returning_leader_is_told_of_the_old_leader_before_version_9() -> None:
    host = Host()
    a, _ = stable_group(host, "a", "b", static=True)
    back = reborn(a)

    answer = back.learn(back.join(api_version=8))

    assert (answer.leader, answer.skip_assignment, list(answer.members)) == (a.member_id, False, [])


def test_a_returning_follower_is_told_of_the_leader_and_of_nobody_else() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b", static=True)
    back = reborn(b)

    answer = back.learn(back.join())

    assert (answer.leader, answer.skip_assignment, list(answer.members)) == (a.member_id, False, [])


def test_a_return_with_another_protocol_rebalances() -> None:
    host = Host()
    clients = [Client(host, "g", name, instance_id=name) for name in "ab"]
    for client in clients:
        client.protocols = [("range", subscription("t")), ("sticky", subscription("t"))]
    tickets = [client.join() for client in clients]
    host.after(2 * DELAY_MS)
    for client, ticket in zip(clients, tickets, strict=True):
        client.learn(ticket)
    clients[0].sync({})
    assert tickets[0].answer.protocol_name == "range"

    back = reborn(clients[1])
    back.protocols = [("sticky", subscription("t"))]

    assert back.join().waits
    assert host.state_of("g") == "PreparingRebalance"


def test_a_return_that_changes_the_vote_rebalances() -> None:
    host = Host()
    likes = {"a": ["range", "sticky"], "b": ["sticky", "range"], "c": ["range", "sticky"]}
    clients = [Client(host, "g", name, instance_id=name) for name in likes]
    for client in clients:
        client.protocols = [(name, subscription("t")) for name in likes[client.name]]
    tickets = [client.join() for client in clients]
    host.after(2 * DELAY_MS)
    for client, ticket in zip(clients, tickets, strict=True):
        client.learn(ticket)
    clients[0].sync({})
    assert tickets[0].answer.protocol_name == "range"

    back = reborn(clients[2])
    back.protocols = [("sticky", subscription("t")), ("range", subscription("t"))]

    assert back.join().waits


def test_a_returned_leader_still_leads_after_the_coordinator_restarts() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b", static=True)
    back = reborn(a)
    back.learn(back.join())

    host.restart()

    assert b.join().answer.leader == back.member_id
    assert back.join().waits


def test_a_return_with_other_topics_rebalances() -> None:
    host = Host()
    _, b = stable_group(host, "a", "b", static=True)
    back = reborn(b)
    back.protocols = [("range", subscription("t", "another"))]

    assert back.join().waits


def test_a_return_with_the_same_topics_in_a_newer_format_does_not_rebalance() -> None:
    host = Host()
    _, b = stable_group(host, "a", "b", static=True)
    back = reborn(b)
    back.protocols = [("range", subscription("t", version=3))]

    assert back.join().answer.generation_id == 1


def test_a_return_while_the_rebalance_completes_starts_another() -> None:
    host = Host()
    a, b = (Client(host, "g", name, instance_id=name) for name in "ab")
    tickets = a.join(), b.join()
    host.after(2 * DELAY_MS)
    a.learn(tickets[0])
    b.learn(tickets[1])

    back = reborn(b).join()

    assert back.waits
    assert refused(a.heartbeat) is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.join().answer.generation_id == back.answer.generation_id == 2


def test_a_return_during_a_rebalance_takes_part_in_it() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b", static=True)
    joined = a.join()
    assert joined.waits

    back = reborn(b).join()

    assert joined.answer.generation_id == back.answer.generation_id == 2


def test_a_static_member_that_misses_a_rebalance_keeps_its_place_until_its_session_ends() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b", static=True)
    a.session_ms = b.session_ms = 3 * REBALANCE_MS
    first = a.join(), b.join()
    a.learn(first[0])
    b.learn(first[1])
    a.sync({})
    b.sync()
    joined = a.join()

    host.after(REBALANCE_MS)

    assert {member.group_instance_id for member in joined.answer.members} == {"a", "b"}


def test_a_rebalance_in_which_only_absent_static_members_are_left_waits_for_them() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b", static=True)
    a.leave()
    assert host.state_of("g") == "PreparingRebalance"

    host.after(SESSION_MS)

    assert host.state_of("g") == "Empty"
    assert refused(b.heartbeat) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_back_a_static_member() -> None:
    host = Host(GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS, group_max_size=2))
    _, b = stable_group(host, "a", "b", static=True)

    assert reborn(b).join().answer.error_code == ErrorCode.NONE


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    host = Host()
    stable_group(host, "a", "b", static=True)
    leavers = [MemberIdentity(member_id="", group_instance_id="b")]

    response = host.call(lambda shard, _, now_ms: shard.leave_group("g", leavers, now_ms)).answer

    assert [member.error_code for member in response.members] == [ErrorCode.NONE]
    assert [member.group_instance_id for member in host.describe("g").members] == ["a"]


def test_the_record_of_a_return_shows_where_the_consumer_runs_now() -> None:
    host = Host()
    _, b = stable_group(host, "a", "b", static=True)
    back = reborn(b)
    back.name = "b-on-another-host"
    back.join()

    record = host.records()[-1]

    assert isinstance(record, GroupMetadata)
    assert [member.client_id for member in record.members if member.instance_id == "b"] == ["b-on-another-host"]
