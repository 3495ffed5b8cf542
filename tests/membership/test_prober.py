"""Probes: whom, how, and what comes of no answer."""

from __future__ import annotations

import pytest

from ottla.config.membership import GossipConfig
from ottla.membership import Change, Status
from ottla.membership.prober import FAILED_EVERY_TURNS, RELAYS_MAX
from ottla.membership.wire import Ack, Failed, Gossip, Left, Nack, Ping, PingRequest, Suspect
from tests.membership.harness import Node, Peer

CONFIG = GossipConfig()
TIMEOUT_MS, INTERVAL_MS = CONFIG.probe_timeout_ms, CONFIG.probe_interval_ms


def met(*node_ids: int, me: int = 1, config: GossipConfig | None = None) -> tuple[Node, dict[int, Peer]]:
    node = Node(me, config=config)
    others = {node_id: Peer(node_id) for node_id in node_ids}
    node.meet(*others.values())
    return node, others


def test_one_member_is_probed_per_interval() -> None:
    node, others = met(2, 3, 4)
    node.live_with(10_000, *others.values())
    assert len(node.sent(Ping)) == 10_000 // INTERVAL_MS


def test_every_second_probe_goes_to_the_successor_and_the_others_go_round() -> None:
    node, others = met(2, 3, 4, 5, 6, me=4)
    del others[4]
    node.live_with(10 * 2 * INTERVAL_MS, *others.values())
    targets = [message.target for _, message in node.sent(Ping)]
    assert set(targets[0::2]) == {5}
    rounds = targets[1::2]
    assert sorted(rounds[:4]) == sorted(rounds[4:8]) == [2, 3, 5, 6]
    assert rounds[:4] != rounds[4:8]


def test_an_answer_settles_a_probe() -> None:
    node, others = met(2, 3)
    node.live_with(5_000, *others.values())
    assert node.sent(PingRequest) == []
    assert node.events == []


def test_who_does_not_answer_is_probed_again_and_by_others() -> None:
    node, others = met(2, 3, 4, 5, 6)
    to, ping = node.run_until_sent(Ping)
    living = [peer for peer in others.values() if peer.address != to]
    node.log.clear()

    node.live_with(TIMEOUT_MS, *living)

    assert (to, ping) in node.sent(Ping)
    asked = {
        address for address, message in node.sent(PingRequest) if message == PingRequest(ping.sequence, ping.target)
    }
    assert len(asked) == CONFIG.indirect_probes
    assert to not in asked


def test_no_answer_to_anybody_makes_a_suspect_after_twice_the_timeout() -> None:
    node, others = met(2, 3)
    to, ping = node.run_until_sent(Ping)
    began_ms = node.now_ms
    living = [peer for peer in others.values() if peer.address != to]
    node.live_with(1_000, *living, until=lambda: node.status_of(ping.target) == Status.SUSPECT)
    assert node.now_ms - began_ms == 2 * TIMEOUT_MS
    assert node.said(Suspect)[0] == Suspect(ping.target, 1, 0, 1)


def test_an_answer_by_way_of_another_settles_a_probe() -> None:
    node, others = met(2, 3)
    to, ping = node.run_until_sent(Ping)
    [helper] = [peer for peer in others.values() if peer.address != to]
    node.live_with(TIMEOUT_MS, helper)
    node.hear(helper, Ack(ping.sequence, ping.target, 1))
    node.live_with(TIMEOUT_MS + 1, helper)
    assert node.changes(ping.target) == []


@pytest.mark.parametrize("answer", [Ack(0, 0, 1), Ack(0, 2, 7)], ids=["of another node", "of another process"])
def test_an_answer_in_somebody_elses_name_settles_nothing(answer: Ack) -> None:
    node, _ = met(2)
    _, ping = node.run_until_sent(Ping)
    node.hear(Peer(2), answer._replace(sequence=ping.sequence))
    node.run(2 * TIMEOUT_MS)
    assert node.status_of(2) == Status.SUSPECT


def test_an_answer_that_comes_twice_or_too_late_does_nothing() -> None:
    node, others = met(2)
    _, ping = node.run_until_sent(Ping)
    node.run(2 * TIMEOUT_MS)
    node.forget()
    for _ in range(2):
        node.hear(others[2], Ack(ping.sequence, 2, 1))
    assert node.events == []
    assert node.status_of(2) == Status.SUSPECT


@pytest.mark.parametrize(("nacks", "score"), [(0, 1), (1, 0)])
def test_helpers_that_say_that_they_got_no_answer_either_leave_the_node_healthy(nacks: int, score: int) -> None:
    node, others = met(2, 3)
    to, ping = node.run_until_sent(Ping)
    [helper] = [peer for peer in others.values() if peer.address != to]
    node.live_with(TIMEOUT_MS + 10, helper)
    for _ in range(nacks):
        node.hear(helper, Nack(ping.sequence))
    node.live_with(1_000, helper, until=lambda: node.changes() == [Change.SUSPECTED])
    assert node.membership.health_score == score


def test_a_node_that_gets_no_answers_probes_less_often() -> None:
    node, _ = met(2, 3, 4)
    node.run(10_000)
    assert node.membership.health_score == 8
    node.log.clear()
    node.run(10 * 9 * INTERVAL_MS)
    first_probes = {message.sequence for _, message in node.sent(Ping) if message.target in (2, 3, 4)}
    assert len(first_probes) < 60


def test_a_probe_on_behalf_of_another_is_answered_to_that_one() -> None:
    node, others = met(2, 3)
    node.hear(others[2], PingRequest(77, 3))
    [(to, ping)] = node.sent(Ping)
    assert (to, ping.target) == (others[3].address, 3)
    node.hear(others[3], Ack(ping.sequence, 3, 1))
    assert node.sent(Ack) == [(others[2].address, Ack(77, 3, 1))]


def test_a_probe_on_behalf_of_another_that_brings_nothing_is_told_in_time() -> None:
    node, others = met(2, 3)
    node.hear(others[2], PingRequest(77, 3))
    node.run(TIMEOUT_MS - 1)
    assert node.sent(Nack) == [(others[2].address, Nack(77))]


def test_nobody_can_have_a_stranger_probed() -> None:
    node, others = met(2)
    node.hear(others[2], PingRequest(77, 99))
    assert node.sent(Ping) == []


def test_probes_on_behalf_of_others_are_bounded() -> None:
    node, others = met(2, 3)
    for sequence in range(2 * RELAYS_MAX):
        node.hear(others[2], PingRequest(sequence, 3))
    assert len(node.sent(Ping)) == RELAYS_MAX


def test_one_that_failed_is_probed_now_and_then_and_told_so() -> None:
    node, others = met(2, 3)
    node.hear(others[2], Gossip(), Failed(3, 1, 0, 2))
    node.log.clear()
    turns = 10 * FAILED_EVERY_TURNS
    node.live_with(turns * INTERVAL_MS, others[2])
    calls = [packet for _, to, packet in node.log if to == others[3].address and isinstance(packet.message, Ping)]
    assert len(calls) == 10
    assert all(packet.entries[0] == Failed(3, 1, 0, 1) for packet in calls)


def test_one_that_left_is_let_alone() -> None:
    node, others = met(2, 3)
    node.hear(others[2], Gossip(), Left(3, 1, 0))
    node.log.clear()
    node.live_with(20_000, others[2])
    assert {to for _, to, _ in node.log} == {others[2].address}


def test_a_node_that_slept_does_not_suspect_those_who_could_not_answer() -> None:
    node, others = met(2, 3)
    node.run_until_sent(Ping)
    node.now_ms += 30_000
    node.live_with(5_000, *others.values())
    assert node.events == []
    assert node.membership.health_score == 0


def test_the_answer_tells_a_suspect_what_is_said_of_it() -> None:
    node, others = met(2, 3)
    node.hear(others[3], Gossip(), Suspect(2, 1, 0, 3))
    node.log.clear()
    node.hear(others[2], Ping(5, 1))
    answers = [(to, packet) for _, to, packet in node.log if isinstance(packet.message, Ack)]
    assert [(to, packet.message) for to, packet in answers] == [
        (others[2].address, Ack(5, 1, node.membership.me.run_id))
    ]
    assert answers[0][1].entries[0] == Suspect(2, 1, 0, 1)


def test_a_probe_that_was_meant_for_the_former_owner_of_the_address_is_not_answered() -> None:
    node, others = met(2)
    node.hear(others[2], Ping(5, 99))
    assert node.sent(Ack) == []
    assert node.membership.counters.misaddressed == 1


def test_without_helpers_the_member_itself_is_asked_twice() -> None:
    node, _ = met(2, config=GossipConfig(indirect_probes=0))
    to, ping = node.run_until_sent(Ping)
    node.run(2 * TIMEOUT_MS)
    assert node.sent(Ping).count((to, ping)) == 2
    assert node.status_of(2) == Status.SUSPECT
