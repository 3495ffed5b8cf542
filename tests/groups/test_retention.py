"""Offsets that have outlived their use are forgotten, and the groups with them."""

from ottla.config import GroupConfig
from ottla.groups.records import GroupDeleted, OffsetDeleted
from ottla.groups.shard import TOMBSTONES_PER_TICK_MAX
from tests.groups.harness import DELAY_MS, REBALANCE_MS, Client, Host, stable_group, subscription

MINUTE_MS = 60_000
RETENTION_MINUTES = 60
RETENTION_MS = RETENTION_MINUTES * MINUTE_MS
CHECK_MS = 10 * MINUTE_MS

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=DELAY_MS, offsets_retention_minutes=RETENTION_MINUTES)


def test_an_empty_group_is_forgotten_once_it_has_been_empty_for_the_retention_time() -> None:
    host = Host(CONFIG)
    (a,) = stable_group(host, "a")
    a.session_ms = 1_800_000
    a.commit({("t", 0): 1})
    keep_alive(host, a, RETENTION_MS)
    a.leave()

    host.after(RETENTION_MS - CHECK_MS)
    assert host.committed("g") == {("t", 0): 1}
    host.after(2 * CHECK_MS)

    assert host.records()[-2:] == [OffsetDeleted("g", "t", 0), GroupDeleted("g")]
    assert host.shard.list_groups() == []


def keep_alive(host: Host, client: Client, duration_ms: int) -> None:
    for _ in range(duration_ms // 5_000):
        host.after(5_000)
        client.heartbeat()


def test_offsets_of_a_consumer_without_membership_live_from_their_commit() -> None:
    host = Host(CONFIG)
    host.commit("simple", {("t", 0): 1})
    host.after(RETENTION_MS // 2)
    host.commit("simple", {("t", 1): 1})

    host.after(RETENTION_MS // 2 + CHECK_MS)
    assert host.committed("simple") == {("t", 1): 1}
    host.after(RETENTION_MS // 2)

    assert host.shard.list_groups() == []
    assert GroupDeleted("simple") not in host.records()


def test_a_living_group_loses_offsets_of_topics_that_it_no_longer_reads() -> None:
    host = Host(CONFIG)
    (a,) = stable_group(host, "a")
    a.commit({("t", 0): 1, ("old", 0): 2})

    keep_alive(host, a, RETENTION_MS + 2 * CHECK_MS)

    assert host.committed("g") == {("t", 0): 1}


def test_nothing_is_forgotten_of_a_living_group_whose_subscriptions_can_not_be_read() -> None:
    host = Host(CONFIG)
    client = Client(host, "g", "a")
    client.protocols = [("custom", b"?")]
    joined = client.enter()
    host.after(DELAY_MS)
    client.learn(joined)
    client.sync({})
    client.commit({("old", 0): 2})

    keep_alive(host, client, RETENTION_MS + 2 * CHECK_MS)

    assert host.committed("g") == {("old", 0): 2}


def test_nothing_is_forgotten_of_a_group_that_rebalances() -> None:
    host = Host(CONFIG)
    (a,) = stable_group(host, "a")
    a.commit({("old", 0): 1})
    a.session_ms, a.rebalance_ms = 1_800_000, 10 * RETENTION_MS
    a.protocols = [("range", subscription("t", "u"))]
    a.learn(a.join())

    keep_alive(host, a, RETENTION_MS + 2 * CHECK_MS)

    assert host.state_of("g") == "CompletingRebalance"
    assert host.committed("g") == {("old", 0): 1}


def test_a_time_to_live_of_an_offset_itself_counts_more_than_the_setting() -> None:
    host = Host(CONFIG)
    host.commit("g", {("t", 0): 1}, retention_time_ms=MINUTE_MS, api_version=4)
    host.commit("g", {("t", 1): 1}, retention_time_ms=2 * RETENTION_MS, api_version=4)

    host.after(RETENTION_MS + 2 * CHECK_MS)

    assert host.committed("g") == {("t", 1): 1}


def test_an_empty_group_without_offsets_is_forgotten_at_the_next_look() -> None:
    host = Host(CONFIG)
    (a,) = stable_group(host, "a")
    a.leave()

    host.after(CHECK_MS)

    assert host.records()[-1] == GroupDeleted("g")


def test_a_group_that_somebody_is_about_to_join_is_not_forgotten() -> None:
    host = Host(CONFIG)
    (a,) = stable_group(host, "a")
    a.leave()
    host.after(CHECK_MS - REBALANCE_MS)
    newcomer = Client(host, "g", "b")
    newcomer.session_ms = 2 * REBALANCE_MS
    newcomer.member_id = newcomer.join().answer.member_id
    host.after(REBALANCE_MS)

    assert newcomer.join().waits


def test_many_expired_offsets_are_forgotten_a_part_at_a_time() -> None:
    host = Host(CONFIG)
    for group in range(30):
        host.commit(f"g{group}", {("t", index): 1 for index in range(100)})

    host.after(RETENTION_MS + CHECK_MS)

    assert host.shard.list_groups() == []
    assert sum(size for size in host.batch_sizes if size > 100) == 3_000
    assert max(host.batch_sizes) <= TOMBSTONES_PER_TICK_MAX + 100


def test_a_shard_without_groups_asks_for_no_ticks() -> None:
    host = Host(CONFIG)
    assert host.shard.next_deadline_ms() is None

    host.commit("g", {("t", 0): 1})
    assert host.shard.next_deadline_ms() is not None
    host.after(2 * RETENTION_MS)

    assert host.shard.next_deadline_ms() is None
