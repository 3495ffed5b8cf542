"""Joining by seeds, and comparing everything with one member now and then."""

from __future__ import annotations

from ottla.config.membership import GossipConfig
from ottla.membership import Address, Change, Load, Status
from ottla.membership.syncer import SEEK_ALONE_MS
from ottla.membership.wire import Alive, Failed, Gossip, Left, Loaded, Suspect, Sync, SyncReply
from tests.membership.harness import ME, Node, Peer, peers

CONFIG = GossipConfig()
SEEDS = [Address(f"seed{number}", 7946) for number in range(10)]


def join(node: Node, *seeds: Address) -> None:
    node.take(node.membership.join(seeds, node.now_ms))


def test_a_seed_is_asked_at_once_and_again_every_second_until_somebody_answers() -> None:
    node = Node()
    join(node, SEEDS[0])
    assert len(node.sent(Sync)) == 1
    node.run(10 * SEEK_ALONE_MS)
    assert 8 <= len(node.sent(Sync)) <= 13
    assert {to for to, _ in node.sent(Sync)} == {SEEDS[0]}


def test_of_many_seeds_a_few_are_asked_at_a_time_and_all_in_the_end() -> None:
    node = Node()
    join(node, *SEEDS)
    assert len(node.sent(Sync)) == CONFIG.gossip_nodes
    node.run(30_000)
    assert {to for to, _ in node.sent(Sync)} == set(SEEDS)


def test_this_node_is_no_seed_for_itself() -> None:
    node = Node()
    join(node, ME)
    node.run(60_000)
    assert node.log == []


def test_a_seed_where_nobody_is_known_to_be_is_tried_again_rarely_once_others_are_known() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    join(node, two.address, SEEDS[0])
    node.live_with(5 * CONFIG.push_pull_interval_ms, two)
    tries = [to for to, _ in node.sent(Sync) if to == SEEDS[0]]
    assert 4 <= len(tries) <= 8


def test_a_seed_that_failed_is_looked_for_again() -> None:
    node, (two, three) = Node(), peers(2, 3)
    node.meet(two, three)
    join(node, three.address)
    node.hear(two, Gossip(), Failed(3, 1, 0, 2))
    node.log.clear()
    node.live_with(2 * CONFIG.push_pull_interval_ms, two)
    assert three.address in [to for to, _ in node.sent(Sync)]


def test_new_seeds_take_the_place_of_the_old_ones() -> None:
    node = Node()
    join(node, SEEDS[0])
    node.forget()
    join(node, SEEDS[1])
    node.run(5_000)
    assert {to for to, _ in node.sent(Sync)} == {SEEDS[1]}


def test_the_answer_of_a_seed_makes_members() -> None:
    node, (two, three) = Node(), peers(2, 3)
    join(node, two.address)
    [(_, sync)] = node.sent(Sync)
    node.hear(two, SyncReply(sync.sync_id), two.alive(), three.alive())
    assert node.changes() == [Change.JOINED, Change.JOINED]


def test_a_sync_is_answered_with_all_that_is_known() -> None:
    node, (two, three, four, five) = Node(), peers(2, 3, 4, 5)
    node.meet(two, three, four, five)
    node.hear(two, Gossip(), Loaded(3, 1, 7, Load(leaders=1)), Suspect(3, 1, 0, 2), Failed(4, 1, 0, 2), Left(5, 1, 0))
    node.log.clear()

    node.hear(two, Sync(99))

    replies = [(to, packet) for _, to, packet in node.log if packet.message == SyncReply(99)]
    [(to, packet)] = replies
    assert to == two.address
    assert [entry.node_id for entry in packet.entries if isinstance(entry, Alive)] == [1, 2, 3]
    assert packet.entries[3:] == (
        Suspect(3, 1, 0, 1),
        Loaded(3, 1, 7, Load(leaders=1)),
        Failed(4, 1, 0, 1),
        Left(5, 1, 0),
    )


def test_a_large_table_is_sent_in_several_packets_and_answered_once() -> None:
    node, many = Node(), peers(*range(2, 102))
    node.meet(*many)

    for page in range(3):
        node.hear(many[0], Sync(5), many[page].alive())

    replies = [packet for _, _, packet in node.log if packet.message == SyncReply(5)]
    assert len(replies) > 2
    said = [entry.node_id for packet in replies for entry in packet.entries]
    assert sorted(said) == list(range(1, 102))
    assert all(len(many[0].packet(packet.message, *packet.entries)) <= CONFIG.packet_bytes_max for packet in replies)


def test_a_second_sync_is_answered_too() -> None:
    node, (two,) = Node(), peers(2)
    node.meet(two)
    node.hear(two, Sync(5))
    node.hear(two, Sync(6))
    assert [message for _, message in node.sent(SyncReply)] == [SyncReply(5), SyncReply(6)]


def test_everything_is_exchanged_with_one_member_every_so_often() -> None:
    node, others = Node(), peers(2, 3, 4)
    node.meet(*others)
    node.live_with(10 * CONFIG.push_pull_interval_ms, *others)
    asked = [to for to, _ in node.sent(Sync)]
    assert 8 <= len(asked) <= 13
    assert len(set(asked)) > 1


def test_one_that_comes_back_is_asked_for_all_that_its_side_knows() -> None:
    node, (two, three) = Node(), peers(2, 3)
    node.meet(two, three)
    node.hear(two, Gossip(), Failed(3, 1, 0, 2))
    node.log.clear()
    node.hear(three, Gossip(), three.alive(1))
    assert [to for to, _ in node.sent(Sync)] == [three.address]


def test_a_whole_half_that_comes_back_does_not_cause_a_storm() -> None:
    node, many = Node(), peers(*range(2, 52))
    node.meet(*many)
    node.hear(many[0], Gossip(), *(Failed(peer.node_id, 1, 0, 2) for peer in many[1:]))
    node.log.clear()
    for peer in many[1:]:
        node.hear(peer, Gossip(), peer.alive(1))
    assert node.status_of(51) == Status.ALIVE
    assert len({message.sync_id for _, message in node.sent(Sync)}) == 1


def test_a_stranger_that_speaks_is_asked_who_it_is() -> None:
    node, (two,) = Node(), peers(2)
    stranger = Peer(9)
    node.meet(two)
    for _ in range(5):
        node.hear(stranger, Gossip())
    assert [to for to, _ in node.sent(Sync)] == [stranger.address]
