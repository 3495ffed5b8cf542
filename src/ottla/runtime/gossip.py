"""Gossip on a real socket: drives the `Membership` core, and remembers where others were.

Where they were is kept in a file, so that nodes find each other after all of them were stopped, whoever of them comes
back, and whatever seeds they were first started with. It is a hint: a file that is old, or that can't be read, costs
nothing but time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from ottla.config import GossipConfig
from ottla.config.seeds import join_seed
from ottla.membership import (
    Address,
    Change,
    Counters,
    Effects,
    Event,
    ForeignCluster,
    Load,
    Member,
    MemberChanged,
    Membership,
    NodeIdConflict,
)
from ottla.ports import Clock, Disk, Random
from ottla.runtime.beats import towards_beat_ms
from ottla.runtime.cluster_socket import ClusterSocket
from ottla.runtime.known_nodes import read_known_nodes, write_known_nodes
from ottla.runtime.seeds import Seeds
from ottla.runtime.timers import Deadline, Timers

log = logging.getLogger(__name__)

LOAD_EVERY_MS = 5_000
SEEDS_EVERY_MS = 10_000
WRITE_AFTER_MS = 500
"""Members come in crowds: they are written once."""
GOODBYE_MS_MAX = 300
LATE_MS_MAX = 20
"""By which a timer is late on a machine that has something else to do."""

QUIET = frozenset({Change.UPDATED})
"""Of no interest to people."""


class Gossip:
    """Members as this node sees them. Made when the node has a cluster; `start`, then `await stop()`."""

    def __init__(
        self,
        *,
        cluster_id: str,
        node_id: int,
        gossip: Address,
        kafka: Address,
        rack: str | None,
        seeds: Sequence[str],
        places: Seeds,
        socket: ClusterSocket,
        disk: Disk,
        config: GossipConfig,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
        random: Random,
        load: Callable[[], Load],
    ) -> None:
        """`gossip` and `kafka` are where others reach this node; `load` says what it carries, every few seconds."""
        self._membership = Membership(
            cluster_id=cluster_id,
            node_id=node_id,
            gossip=gossip,
            kafka=kafka,
            rack=rack,
            started_ms=clock.now_ms(),
            config=config,
            random=random,
            now_ms=clock.monotonic_ms(),
        )
        self._interval_ms = config.probe_interval_ms
        self._seeds = tuple(seeds)
        self._remembered = read_known_nodes(disk)
        self._registered: tuple[str, ...] = ()
        self._joined: frozenset[Address] = frozenset()
        self._places = places
        self._socket = socket
        self._disk = disk
        self._loop = loop
        self._clock = clock
        self._timers = timers
        self._load = load
        self._listeners: list[Callable[[MemberChanged], None]] = []
        self._ended: dict[int, int] = {}
        """Of processes that this node has seen to be gone: by node, the run."""
        self._timer: asyncio.TimerHandle | None = None
        """Of the loop itself: most of the core's deadlines are for answers that come in time, and one of `Timers` wakes
        the loop also when it was cancelled."""
        self._timer_ms: int | None = None
        self._write_timer: Deadline | None = None
        self._is_stopped = False
        self._left: asyncio.Future[None] | None = None

    # What is known

    @property
    def counters(self) -> Counters:
        return self._membership.counters

    def members(self) -> Sequence[Member]:
        """Everybody known, this node included."""
        return self._membership.members()

    def member(self, node_id: int) -> Member | None:
        return self._membership.member(node_id)

    def address_of(self, node_id: int) -> Address | None:
        """The cluster address of a node, also of one that seems to be gone."""
        member = self._membership.member(node_id)
        return None if member is None else member.gossip

    def live(self) -> list[int]:
        """The other nodes that are not known to be gone."""
        me = self._membership.me.node_id
        return [member.node_id for member in self.members() if member.is_live and member.node_id != me]

    def dead(self) -> frozenset[int]:
        """Nodes that are suspected, have failed or have left: a hint, which may be wrong."""
        return frozenset(member.node_id for member in self.members() if member.status)

    def ended(self) -> frozenset[int]:
        """Those of them whose process has ended, as this node has seen for itself. One that answers is not of them."""
        dead = (member for member in self.members() if member.status)
        return frozenset(member.node_id for member in dead if self._ended.get(member.node_id) == member.run_id)

    def on_change(self, listener: Callable[[MemberChanged], None]) -> None:
        """Call `listener` with every change from now on."""
        self._listeners.append(listener)

    # Life

    def start(self) -> None:
        self._socket.on_gossip = self._receive
        self._places.on_found = lambda _name: self._join()
        self._join()
        self._measure()
        self._look_for_seeds()

    def process_ended(self, node_id: int) -> None:
        """Nobody listens at that node's address any more: others hear of it without waiting for a probe."""
        member = self._membership.member(node_id)
        if member is not None and not self._is_stopped:
            self._ended[node_id] = member.run_id
            self._carry_out(self._membership.accuse(node_id, self._clock.monotonic_ms()))

    def set_registered(self, places: Iterable[Address]) -> None:
        """The cluster addresses of all brokers that the metadata knows of."""
        registered = tuple(sorted(join_seed(*place) for place in places))
        if registered != self._registered:
            self._registered = registered
            self._join()

    async def stop(self) -> None:
        """Say goodbye, and wait until that is said, but not for long."""
        if not self._is_stopped:
            self._is_stopped = True
            self._left = self._loop.create_future()
            deadline = self._timers.after_ms(GOODBYE_MS_MAX, self._has_left)
            self._carry_out(self._membership.leave(self._clock.monotonic_ms()))
            await self._left
            deadline.cancel()
        self.drop()

    def drop(self) -> None:
        """Without a word, as a crash would."""
        self._is_stopped = True
        self._listeners.clear()
        self._socket.on_gossip = _ignore
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()

    def _has_left(self) -> None:
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    # Driving the core

    def _receive(self, packet: bytes, sender: Address) -> None:
        self._carry_out(self._membership.receive(packet, sender, self._clock.monotonic_ms()))

    def _tick(self) -> None:
        now_ms, due_ms = self._clock.monotonic_ms(), self._timer_ms
        self._timer = self._timer_ms = None
        if due_ms is not None and now_ms - due_ms <= LATE_MS_MAX:
            now_ms = due_ms  # or the next probe would be later by that, and not on the beat
        self._carry_out(self._membership.tick(now_ms))

    def _carry_out(self, effects: Effects) -> None:
        for to, packet in effects.packets:
            self._socket.send(to, packet)
        for event in effects.events:
            self._tell(event)
        self._arm()

    def _arm(self) -> None:
        due_ms = self._membership.next_deadline_ms()
        if due_ms is None and self._is_stopped:
            self._has_left()
        now_ms = self._clock.monotonic_ms()
        if due_ms is not None and due_ms == self._membership.next_probe_ms:
            due_ms = towards_beat_ms(due_ms, self._interval_ms)
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        if due_ms is not None:
            delay_ms = max(0, due_ms - now_ms)
            self._timer = self._loop.call_later(delay_ms / 1000, self._tick)

    def _tell(self, event: Event) -> None:
        if isinstance(event, MemberChanged):
            self._member_changed(event)
        elif isinstance(event, ForeignCluster):
            log.error(
                "node %d at %s is of another cluster, %s: it is not listened to",
                event.node_id,
                event.address,
                event.cluster_id,
            )
        elif isinstance(event, NodeIdConflict):
            log.error(
                "two processes call themselves node %d: %s has been here for longer, %s is not listened to",
                event.node_id,
                event.held_by,
                event.claimed_by,
            )

    def _member_changed(self, event: MemberChanged) -> None:
        member = event.member
        if not member.status:
            self._ended.pop(member.node_id, None)
        if event.change not in QUIET:
            level = logging.WARNING if event.change in (Change.SUSPECTED, Change.FAILED) else logging.INFO
            log.log(level, "node %d at %s: %s", member.node_id, member.gossip, event.change)
            self._write_soon()
        for listener in tuple(self._listeners):
            listener(event)

    # Seeds

    def _names(self) -> set[str]:
        return {*self._seeds, *self._remembered, *self._registered}

    def _join(self) -> None:
        """Where the core looks for members; again when somebody may be elsewhere."""
        addresses = frozenset(self._places.addresses(self._names()))
        if addresses != self._joined and not self._is_stopped:
            self._joined = addresses
            self._carry_out(self._membership.join(sorted(addresses), self._clock.monotonic_ms()))

    def _look_for_seeds(self) -> None:
        """Names are looked up again while nobody is where they lead to."""
        if self._is_stopped:
            return
        live = {member.gossip for member in self.members() if member.is_live}
        for name in self._names():
            if self._places.last_known(name) not in live:
                self._places.address(name)
        self._join()
        self._timers.after_ms(SEEDS_EVERY_MS, self._look_for_seeds)

    # Load figures, and the file

    def _measure(self) -> None:
        if not self._is_stopped:
            self._membership.set_load(self._load())
            self._arm()
            self._timers.after_ms(LOAD_EVERY_MS, self._measure)

    def _write_soon(self) -> None:
        if self._write_timer is None and not self._is_stopped:
            self._write_timer = self._timers.after_ms(WRITE_AFTER_MS, self._write)

    def _write(self) -> None:
        self._write_timer = None
        me = self._membership.me.node_id
        places = tuple(sorted(join_seed(*member.gossip) for member in self.members() if member.node_id != me))
        if places and places != self._remembered:
            self._remembered = places
            write_known_nodes(self._disk, places)


def _ignore(_packet: bytes, _sender: Address) -> None:
    """Nobody listens any more."""
