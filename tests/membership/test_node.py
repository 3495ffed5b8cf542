"""Which packets are listened to, and what a node does by itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ConfigError, InvariantError
from ottla.membership import (
    Address,
    Change,
    ClusterAdopted,
    ForeignCluster,
    Load,
    Membership,
    NodeIdConflict,
    Status,
)
from ottla.membership.member import UINT32_MAX, UINT64_MAX
from ottla.membership.wire import (
    Ack,
    Alive,
    Entry,
    Failed,
    Gossip,
    Left,
    Loaded,
    Message,
    Ping,
    Refused,
    Suspect,
    Sync,
    SyncReply,
)
from tests.membership.harness import CLUSTER, ME, Node, Peer, peers
from tests.membership.test_wire import entries, messages

SEED = Address("seed", 7946)


def lone(**settings: str) -> Node:
    """A node that has asked a seed."""
    node = Node(**settings)  # type: ignore[arg-type]  # the one setting that tests give is a text
    node.take(node.membership.join([SEED], node.now_ms))
    return node


# Clusters


@pytest.mark.parametrize("message", [Ping(1, 1), Gossip(), Sync(1), SyncReply(1), Ack(1, 2, 1)])
def test_another_cluster_is_not_listened_to_and_is_reported_once(message: Message) -> None:
    node = lone()
    stranger = Peer(2, cluster_id="other")
    node.forget()
    for _ in range(3):
        node.hear(stranger, message, stranger.alive())
    assert [member.node_id for member in node.membership.members()] == [1]
    assert node.events == [ForeignCluster(cluster_id="other", node_id=2, address=stranger.address)]
    assert node.membership.counters.foreign == 3
    assert node.sent(Ack) == []


def test_a_node_of_another_cluster_that_wants_to_join_is_told_so_but_learns_nothing() -> None:
    node = lone()
    stranger = Peer(2, cluster_id="other")
    node.forget()
    node.hear(stranger, Sync(1), stranger.alive())
    assert [(to, packet.message, packet.entries) for _, to, packet in node.log] == [(stranger.address, Refused(), ())]


def test_a_report_comes_again_after_a_while() -> None:
    node = lone()
    stranger = Peer(2, cluster_id="other")
    node.hear(stranger, Gossip())
    node.run(60_000)
    node.hear(stranger, Gossip())
    assert len(node.events) == 2


def test_many_foreign_clusters_do_not_flood_the_reports() -> None:
    node = lone()
    for number in range(100):
        node.hear(Peer(2, cluster_id=f"other {number}"), Gossip())
    assert len(node.events) == 1
    node.run(1_000)
    node.hear(Peer(2, cluster_id="other 50"), Gossip())
    assert len(node.events) == 2


def test_a_refusal_is_never_answered() -> None:
    node = lone()
    node.forget()
    node.hear(Peer(2, cluster_id="other"), Refused())
    node.hear(Peer(2), Refused(), Peer(1, run_id=9, host="elsewhere").alive())
    assert node.log == []


def test_a_node_without_a_cluster_follows_the_seed_that_it_asked() -> None:
    node, (two,) = lone(cluster_id=""), peers(2)
    [(_, sync)] = node.sent(Sync)
    node.forget()
    node.hear(two, SyncReply(sync.sync_id), two.alive())
    assert node.membership.cluster_id == CLUSTER
    assert ClusterAdopted(cluster_id=CLUSTER) in node.events
    assert {packet.cluster_id for _, _, packet in node.log} == {CLUSTER}


def test_a_node_without_a_cluster_does_not_follow_whoever_calls() -> None:
    node, (two,) = lone(cluster_id=""), peers(2)
    for message in (Ping(1, 1), Gossip(), Sync(1), SyncReply(12345)):
        node.hear(two, message, two.alive())
    assert node.membership.cluster_id == ""
    assert len(node.membership.members()) == 1


def test_nodes_without_a_cluster_find_each_other_and_follow_the_first_that_has_one() -> None:
    node, early = Node(cluster_id=""), Peer(2, cluster_id="")
    node.meet(early)
    assert node.status_of(2) == Status.ALIVE
    node.hear(Peer(2, cluster_id="new"), Gossip())
    assert node.membership.cluster_id == "new"
    node.hear(Peer(3, cluster_id="other"), Gossip())
    assert node.membership.cluster_id == "new"


def test_a_node_with_a_cluster_takes_in_one_that_has_none() -> None:
    node, early = Node(), Peer(2, cluster_id="")
    node.hear(early, Sync(1), early.alive())
    assert node.status_of(2) == Status.ALIVE
    assert {packet.cluster_id for _, _, packet in node.log} == {CLUSTER}


def test_a_node_can_be_given_a_cluster_once() -> None:
    node, early = Node(cluster_id=""), Peer(2, cluster_id="")
    node.meet(early)
    node.run(250)
    node.forget()
    node.take(node.membership.adopt_cluster("new", node.now_ms))
    node.take(node.membership.adopt_cluster("new", node.now_ms))
    assert {packet.cluster_id for _, _, packet in node.log} == {"new"}
    with pytest.raises(InvariantError):
        node.membership.adopt_cluster("other", node.now_ms)


# Two nodes of one id


def test_a_second_node_of_a_members_id_is_refused_and_told_who_has_it() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    second = Peer(2, run_id=5, host="elsewhere")
    node.hear(second, Sync(1), second.alive())
    refusals = [(to, packet.entries[0]) for _, to, packet in node.log if packet.message == Refused()]
    assert refusals == [(second.address, two.alive())]
    assert node.events == [NodeIdConflict(node_id=2, held_by=two.address, claimed_by=second.address)]


def test_a_node_that_is_refused_reports_who_has_its_id() -> None:
    node, (two,) = lone(), peers(2)
    holder = Peer(1, run_id=1, host="elsewhere")
    node.forget()
    node.hear(two, Refused(), holder.alive())
    assert node.events == [NodeIdConflict(node_id=1, held_by=holder.address, claimed_by=ME)]


def test_a_process_that_is_told_of_its_failed_predecessor_takes_a_higher_number() -> None:
    node, (two,) = Node(started_ms=1), peers(2)
    node.hear(two, Refused(), Failed(1, 2**50, 3, 2))
    assert node.membership.me.run_id == 2**50 + 1


@pytest.mark.parametrize("run_id", [1, 2**62], ids=["started earlier", "started later"])
def test_a_second_node_of_this_ones_id_is_reported_when_it_speaks_to_it(run_id: int) -> None:
    node = Node()
    second = Peer(1, run_id=run_id, host="elsewhere")
    node.hear(second, Sync(1), second.alive())
    [conflict] = node.events
    assert isinstance(conflict, NodeIdConflict)
    assert conflict.held_by == (second.address if run_id == 1 else ME)
    assert [entry.gossip for entry in node.said(Alive)] == [ME]


def test_a_packet_of_this_nodes_former_process_that_was_late_is_nothing() -> None:
    node = Node()
    node.hear(Peer(1, run_id=1), Gossip(), sender=ME)
    assert (node.events, node.log) == ([], [])


def test_a_packet_of_its_own_is_nothing() -> None:
    node = Node()
    node.hear(Peer(1, run_id=node.membership.me.run_id), Sync(1), sender=SEED)
    assert (node.events, node.log) == ([], [])


def test_a_process_that_is_older_than_what_is_known_is_told() -> None:
    node, later = Node(), Peer(2, run_id=9)
    node.meet(later)
    node.hear(Peer(2, run_id=8), Ping(1, 1))
    assert [packet.entries[0] for _, _, packet in node.log if packet.message == Refused()] == [later.alive()]


# What a node has seen for itself


def test_a_member_that_is_accused_is_suspected_at_once_and_everybody_is_told() -> None:
    node, others = Node(), peers(2, 3)
    node.meet(*others)
    node.take(node.membership.accuse(2, node.now_ms))
    assert node.changes(about=2) == [Change.SUSPECTED]
    node.run(node.config.gossip_interval_ms)
    suspicion = Suspect(2, others[0].run_id, 0, 1)
    assert {to for _, to, packet in node.log if suspicion in packet.entries} == {peer.address for peer in others}


def test_a_member_that_is_accused_can_deny_it() -> None:
    node, (two, _) = Node(), peers(2, 3)
    node.meet(two, Peer(3))
    node.take(node.membership.accuse(2, node.now_ms))
    node.hear(two, Gossip(), two.alive(incarnation=1))
    assert (node.status_of(2), node.changes(about=2)) == (Status.ALIVE, [Change.SUSPECTED, Change.ALIVE])


@pytest.mark.parametrize("accused", [1, 9])
def test_nobody_accuses_itself_or_a_stranger(accused: int) -> None:
    node = Node()
    node.meet(*peers(2, 3))
    node.take(node.membership.accuse(accused, node.now_ms))
    assert (node.events, node.said(Suspect)) == ([], [])


def test_a_node_that_left_accuses_nobody() -> None:
    node = Node()
    node.meet(*peers(2, 3))
    node.take(node.membership.leave(node.now_ms))
    node.take(node.membership.accuse(2, node.now_ms))
    assert (node.status_of(2), node.said(Suspect)) == (Status.ALIVE, [])


# Leaving


def test_a_node_that_leaves_tells_everybody_at_once_and_a_few_times_more() -> None:
    node, others = Node(), peers(2, 3, 4, 5, 6)
    node.meet(*others)
    node.take(node.membership.leave(node.now_ms))
    goodbye = Left(1, node.membership.me.run_id, 0)
    assert {to for _, to, packet in node.log if goodbye in packet.entries} == {peer.address for peer in others}
    node.run(60_000)
    assert node.membership.next_deadline_ms() is None
    assert len(node.said(Left)) > len(others)


def test_a_node_that_left_listens_to_nobody() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    node.take(node.membership.leave(node.now_ms))
    node.run(10_000)
    node.forget()
    node.hear(two, Ping(1, 1), Failed(1, node.membership.me.run_id, 5, 2))
    assert (node.log, node.membership.me.status) == ([], Status.LEFT)


# Load


def test_load_figures_are_said_at_most_once_per_interval_and_make_no_packet_leave() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    for figure in range(1, 21):
        node.membership.set_load(Load(requests_per_s=figure))
        node.live_with(1_000, two)
    assert {entry.version for entry in node.said(Loaded)} == {1, 2}
    assert node.sent(Gossip) == []
    assert node.membership.me.load == Load(requests_per_s=11)


def test_figures_that_do_not_change_are_not_said_again() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    node.membership.set_load(Load(partitions=3))
    node.live_with(5_000, two)
    node.forget()
    node.membership.set_load(Load(partitions=3))
    node.live_with(14_000, two, until=lambda: bool(node.sent(Sync)))
    assert node.membership.me.load_version == 1


def test_figures_that_do_not_fit_are_cut_to_what_does() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    node.membership.set_load(Load(2**70, -5, 2**40, 7, -1))
    node.live_with(1_000, two)
    assert node.membership.me.load == Load(UINT64_MAX, 0, UINT32_MAX, 7, 0)
    assert node.said(Loaded)


# Robustness


@given(st.binary(max_size=1_500))
def test_noise_is_counted_and_dropped(noise: bytes) -> None:
    node = Node()
    node.receive(noise, SEED)
    assert node.membership.counters.garbage == 1
    assert (node.log, node.events) == ([], [])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), messages, st.lists(entries, max_size=4)), max_size=12))
def test_whatever_is_said_a_node_goes_on(
    said: list[tuple[int, int, Message, list[Entry]]],
) -> None:
    """Messages and entries of any numbers, some about members that there are and about the node itself."""
    node = Node()
    node.meet(*peers(2, 3))
    for speaker, about, message, news in said:
        bent = [entry._replace(node_id=about) if index % 2 else entry for index, entry in enumerate(news)]
        if speaker == 0:
            bent = [entry._replace(run_id=node.membership.me.run_id) for entry in bent]
        node.hear(Peer(speaker), message, *bent)
        node.run(100)
    node.run(5_000)
    assert node.membership.me.status == Status.ALIVE
    assert max((len(Peer(1).packet(packet.message, *packet.entries)) for _, _, packet in node.log), default=0) <= 1_400


def test_a_clock_that_goes_back_does_no_harm() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    node.live_with(2_000, two)
    node.take(node.membership.tick(node.now_ms - 10_000))
    node.hear(two, Ping(1, 1))
    node.live_with(2_000, two)
    assert node.changes() == []


def test_calling_tick_too_often_sends_nothing_more() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    for _ in range(2_000):
        for _ in range(3):
            node.take(node.membership.tick(node.now_ms))
        node.live_with(1, two)
    assert len(node.sent(Ping)) <= 11


def test_alone_without_seeds_a_node_has_hardly_anything_to_do() -> None:
    node = Node()
    wakes = 0
    while (due_ms := node.membership.next_deadline_ms()) is not None and due_ms < 50_000 + 60_000:
        node.now_ms = max(due_ms, node.now_ms)
        node.take(node.membership.tick(node.now_ms))
        wakes += 1
    assert wakes <= 7
    assert node.log == []


def test_what_goes_in_and_out_is_counted() -> None:
    node, (two,) = Node(), peers(2)
    node.hear(two, Sync(1), two.alive())
    counters = node.membership.counters
    assert counters.packets_received == 1
    assert counters.bytes_received == len(two.packet(Sync(1), two.alive()))
    assert counters.packets_sent == len(node.log)
    assert counters.bytes_sent > 0


def test_the_view_holds_everybody_by_node_id() -> None:
    node, others = Node(3), peers(5, 1, 4)
    node.meet(*others)
    assert [member.node_id for member in node.membership.members()] == [1, 3, 4, 5]
    assert node.membership.member(3) == node.membership.me
    assert node.membership.member(9) is None
    assert node.changes() == []


def test_a_member_that_joins_is_told_of_once() -> None:
    node, (two,) = Node(), peers(2)
    for _ in range(3):
        node.hear(two, Gossip(), two.alive())
    assert node.changes() == [Change.JOINED]


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("cluster id", {"cluster_id": "c" * 256}),
        ("gossip host", {"gossip": Address("ä" * 128, 1)}),
        ("Kafka host", {"kafka": Address("h" * 256, 1)}),
        ("rack", {"rack": "r" * 256}),
        ("node_id", {"node_id": -1}),
    ],
)
def test_what_does_not_fit_into_a_packet_is_refused_at_the_start(name: str, overrides: dict[str, object]) -> None:
    node = Node()
    arguments: dict[str, object] = {
        "cluster_id": "c", "node_id": 1, "gossip": ME, "kafka": ME, "started_ms": 1, "now_ms": 0,
        "config": node.config, "random": node.membership._random,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=name):
        Membership(**(arguments | overrides))  # type: ignore[arg-type]  # the table above is of many types
