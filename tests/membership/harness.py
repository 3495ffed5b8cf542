"""One node under test, and others that say what a test wants them to say."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.config.membership import GossipConfig
from ottla.membership import Address, Change, Effects, Event, MemberChanged, Membership, Status
from ottla.membership.wire import Ack, Alive, Entry, Message, Packet, PacketWriter, Ping, Sync, decode, encode_entry

CLUSTER = "this cluster"
ME = Address("me", 7946)
STARTED_MS = 1_700_000_000_000

M = TypeVar("M", bound=Message)
E = TypeVar("E")


class Peer:
    """Another node, as far as it can be seen from here."""

    def __init__(self, node_id: int, *, run_id: int = 1, host: str | None = None, cluster_id: str = CLUSTER) -> None:
        self.node_id = node_id
        self.run_id = run_id
        self.address = Address(host or f"peer{node_id}", 7946)
        self._writer = PacketWriter(cluster_id, node_id, run_id)

    def alive(self, incarnation: int = 0) -> Alive:
        return Alive(self.node_id, self.run_id, incarnation, self.address, Address(self.address.host, 9092), "r1")

    def packet(self, message: Message, *entries: Entry) -> bytes:
        return self._writer.packet(self._writer.head(message), map(encode_entry, entries))


class Node:
    """A node with a clock that the test moves. The time is that of its own clock."""

    def __init__(
        self,
        node_id: int = 1,
        *,
        config: GossipConfig | None = None,
        cluster_id: str = CLUSTER,
        seed: int = 0,
        started_ms: int = STARTED_MS,
    ) -> None:
        self.now_ms = 50_000
        self.config = config or GossipConfig()
        self.membership = Membership(
            cluster_id=cluster_id,
            node_id=node_id,
            gossip=ME,
            kafka=Address("me", 9092),
            rack="r0",
            started_ms=started_ms,
            config=self.config,
            random=random.Random(seed),
            now_ms=self.now_ms,
        )
        self.log: list[tuple[int, Address, Packet]] = []
        """What was sent: when, to whom, what."""
        self.events: list[Event] = []

    def meet(self, *peers: Peer) -> None:
        """They join, and what is said about that is over."""
        for number, peer in enumerate(peers):
            self.hear(peer, Sync(number), peer.alive())
        while self.membership._outbox.rumours.is_urgent:
            self.membership._outbox.rumours.take(1_400, 1)
        self.forget()

    def forget(self) -> None:
        self.log.clear()
        self.events.clear()

    def hear(self, peer: Peer, message: Message, *entries: Entry, sender: Address | None = None) -> None:
        self.receive(peer.packet(message, *entries), sender or peer.address)

    def receive(self, packet: bytes, sender: Address) -> None:
        self.take(self.membership.receive(packet, sender, self.now_ms))

    def take(self, effects: Effects) -> None:
        self.log += [(self.now_ms, to, decode(packet)) for to, packet in effects.packets]
        self.events += effects.events

    def run(self, for_ms: int) -> None:
        """Serve the timer, as the runtime does."""
        until_ms = self.now_ms + for_ms
        while (due_ms := self.membership.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.take(self.membership.tick(self.now_ms))
        self.now_ms = until_ms

    def live_with(self, for_ms: int, *living: Peer, until: Callable[[], bool] = lambda: False) -> None:
        """Time passes, in which these answer probes, and nobody else does."""
        by_address = {peer.address: peer for peer in living}
        for _ in range(for_ms):
            began = len(self.log)
            self.run(1)
            for _, to, packet in self.log[began:]:
                if isinstance(packet.message, Ping) and to in by_address:
                    peer = by_address[to]
                    self.hear(peer, Ack(packet.message.sequence, peer.node_id, peer.run_id))
            if until():
                return

    def run_until_sent(self, kind: type[M], limit_ms: int = 5_000) -> tuple[Address, M]:
        """The next message of this kind."""
        self.log.clear()
        for _ in range(limit_ms):
            self.run(1)
            for _, to, packet in self.log:
                if isinstance(packet.message, kind):
                    return to, packet.message
        raise AssertionError(f"no {kind.__name__} within {limit_ms} ms")

    def sent(self, kind: type[M]) -> list[tuple[Address, M]]:
        return [(to, packet.message) for _, to, packet in self.log if isinstance(packet.message, kind)]

    def said(self, kind: type[E]) -> list[E]:
        """The entries of this kind, in order."""
        return [entry for _, _, packet in self.log for entry in packet.entries if isinstance(entry, kind)]

    def changes(self, about: int | None = None) -> list[Change]:
        changed = [event for event in self.events if isinstance(event, MemberChanged)]
        return [event.change for event in changed if about in (None, event.member.node_id)]

    def status_of(self, node_id: int) -> Status | None:
        member = self.membership.member(node_id)
        return None if member is None else member.status


def peers(*node_ids: int) -> Sequence[Peer]:
    return [Peer(node_id) for node_id in node_ids]
