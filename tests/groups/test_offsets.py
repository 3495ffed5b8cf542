"""Committing, fetching and deleting offsets."""

from collections.abc import Collection

import pytest

from ottla.errors import ErrorCode
from ottla.groups.records import OffsetCommitted, OffsetDeleted
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.groups.harness import DELAY_MS, SESSION_MS, Client, Host, refused, stable_group, subscription


def delete(
    host: Host, group_id: str, *partitions: tuple[str, int], unknown: Collection[tuple[str, int]] = ()
) -> list[int]:
    """The error of each partition."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
            for topic, index in partitions
        ],
    )
    response = host.call(lambda shard, _, __: shard.delete_offsets(request, unknown)).answer
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


# Committing


def test_a_member_of_the_current_generation_commits() -> None:
    host = Host()
    (a,) = stable_group(host, "a")

    assert a.commit({("t", 0): 5, ("t", 1): 6}) == {("t", 0): 0, ("t", 1): 0}

    assert host.committed("g") == {("t", 0): 5, ("t", 1): 6}


def test_a_commit_counts_as_a_heartbeat() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    for offset in range(5):
        host.after(SESSION_MS - 1)
        a.commit({("t", 0): offset})

    assert host.state_of("g") == "Stable"


def test_a_stale_member_can_not_commit() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")

    def error(client: Client) -> int:
        return client.commit({("t", 0): 1})[("t", 0)]

    a.generation = 7
    assert error(a) == ErrorCode.ILLEGAL_GENERATION
    a.generation, a.member_id = 1, "someone-else"
    assert error(a) == ErrorCode.UNKNOWN_MEMBER_ID
    b.generation = -1
    assert error(b) == ErrorCode.ILLEGAL_GENERATION
    assert host.committed("g") == {}


def test_a_commit_is_taken_while_members_rejoin_but_not_before_they_know_their_assignment() -> None:
    host = Host()
    a, b = stable_group(host, "a", "b")
    joined = a.join()
    assert b.commit({("t", 0): 3}) == {("t", 0): ErrorCode.NONE}

    b.learn(b.join())
    a.learn(joined)

    assert b.commit({("t", 0): 4}) == {("t", 0): ErrorCode.REBALANCE_IN_PROGRESS}
    assert host.committed("g") == {("t", 0): 3}


def test_a_consumer_that_assigns_by_itself_commits_without_being_a_member() -> None:
    host = Host()

    assert host.commit("simple", {("t", 0): 9}) == {("t", 0): ErrorCode.NONE}

    assert host.committed("simple") == {("t", 0): 9}
    assert host.state_of("simple") == "Empty"
    assert host.describe("simple").protocol_type == ""


def test_an_administrator_commits_for_an_empty_group_but_not_for_one_with_members() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    assert host.commit("g", {("t", 0): 1}) == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}

    a.leave()

    assert host.commit("g", {("t", 0): 1}) == {("t", 0): ErrorCode.NONE}


@pytest.mark.parametrize(
    ("api_version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_a_group_that_is_gone_is_told_so(api_version: int, error: ErrorCode) -> None:
    errors = Host().commit(
        "gone", {("t", 0): 1}, member_id="m", generation_id_or_member_epoch=3, api_version=api_version
    )

    assert errors == {("t", 0): error}


def test_partitions_that_do_not_exist_are_refused_one_by_one() -> None:
    host = Host()

    errors = host.commit("g", {("t", 0): 1, ("t", 9): 2}, unknown={("t", 9)})

    assert errors == {("t", 0): ErrorCode.NONE, ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert host.committed("g") == {("t", 0): 1}


def test_partitions_that_do_not_exist_are_told_apart_from_a_refused_member() -> None:
    errors = Host().commit(
        "g", {("t", 0): 1, ("t", 9): 2}, unknown={("t", 9)}, member_id="m", generation_id_or_member_epoch=3
    )

    assert errors == {("t", 0): ErrorCode.GROUP_ID_NOT_FOUND, ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_note_may_be_as_long_as_the_setting_says() -> None:
    host = Host()

    assert host.commit("g", {("t", 0): 1}, metadata="x" * 4096) == {("t", 0): ErrorCode.NONE}
    assert host.commit("g", {("t", 0): 2}, metadata="x" * 4097) == {("t", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert host.committed("g") == {("t", 0): 1}


def test_the_last_commit_counts() -> None:
    host = Host()
    host.commit("g", {("t", 0): 9})
    host.commit("g", {("t", 0): 4})

    assert host.committed("g") == {("t", 0): 4}


def test_a_time_to_live_that_the_client_asks_for_is_written() -> None:
    host = Host()
    host.commit("g", {("t", 0): 9}, retention_time_ms=1_000, api_version=4)

    (record,) = host.records()

    assert isinstance(record, OffsetCommitted)
    assert record.expire_timestamp_ms == host.now_ms + 1_000


# Fetching


def test_what_was_never_committed_is_minus_one_without_an_error() -> None:
    host = Host()
    asked = OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])])
    host.commit("g", {("t", 1): 5}, metadata="note")

    response = host.call(lambda shard, _, __: shard.fetch_offsets(asked)).answer

    assert response.error_code == ErrorCode.NONE
    assert [
        (at.partition_index, at.committed_offset, at.committed_leader_epoch, at.metadata, at.error_code)
        for at in response.topics[0].partitions
    ] == [(0, -1, -1, "", 0), (1, 5, -1, "note", 0)]


def test_all_offsets_come_in_order() -> None:
    host = Host()
    host.commit("g", {("b", 1): 1, ("a", 2): 2, ("b", 0): 3, ("a", 10): 4})

    assert list(host.committed("g")) == [("a", 2), ("a", 10), ("b", 0), ("b", 1)]
    assert host.committed("never-seen") == {}


# Deleting


def test_offsets_of_topics_that_nobody_reads_are_deleted() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    a.commit({("t", 0): 1, ("old", 0): 2})

    assert delete(host, "g", ("t", 0), ("old", 0), ("old", 5)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0, 0]

    assert host.committed("g") == {("t", 0): 1}


def test_an_empty_group_may_lose_any_offset() -> None:
    host = Host()
    (a,) = stable_group(host, "a")
    a.commit({("t", 0): 1})
    a.leave()

    assert delete(host, "g", ("t", 0)) == [ErrorCode.NONE]
    assert host.records()[-1] == OffsetDeleted("g", "t", 0)


def test_every_offset_is_kept_while_it_can_not_be_told_who_reads_what() -> None:
    host = Host()
    client = Client(host, "g", "a")
    client.protocols = [("range", b"\x00")]
    client.enter()
    host.after(DELAY_MS)

    assert delete(host, "g", ("other", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_a_living_group_that_is_not_of_consumers_keeps_its_offsets() -> None:
    host = Host()
    worker = Client(host, "g", "w")
    worker.protocol_type, worker.protocols = "connect", [("sessioned", b"")]
    worker.enter()
    host.after(DELAY_MS)

    assert refused(lambda: delete(host, "g", ("t", 0))) is ErrorCode.NON_EMPTY_GROUP


def test_deleting_offsets_of_unknown_groups_and_partitions_is_refused() -> None:
    host = Host()
    assert refused(lambda: delete(host, "never-seen", ("t", 0))) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused(lambda: delete(host, "", ("t", 0))) is ErrorCode.INVALID_GROUP_ID

    host.commit("g", {("t", 0): 1})

    assert delete(host, "g", ("x", 0), unknown=(("x", 0),)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_what_any_member_subscribes_to_is_read() -> None:
    host = Host()
    a, b = Client(host, "g", "a"), Client(host, "g", "b")
    b.protocols = [("range", subscription("u"))]
    a.enter()
    b.enter()
    host.after(2 * DELAY_MS)

    assert delete(host, "g", ("t", 0), ("u", 0), ("v", 0)) == [86, 86, 0]


def test_a_deleted_topic_takes_the_offsets_of_all_groups_with_it() -> None:
    host = Host()
    host.commit("g", {("t", 0): 1, ("kept", 0): 2})
    host.commit("h", {("t", 3): 1})

    host.call(lambda shard, _, now_ms: shard.topic_deleted("t", now_ms))

    assert host.committed("g") == {("kept", 0): 2}
    assert [group.group_id for group in host.shard.list_groups()] == ["g"]
