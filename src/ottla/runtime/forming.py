"""At the start of a node: from what its directory says, and its seeds, to the cluster that it is of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from ottla.errors import ConfigError
from ottla.membership import Address
from ottla.membership.founding import Formed, Founding, Refused
from ottla.ports import Clock, Disk, Random
from ottla.runtime.cluster_socket import ClusterSocket
from ottla.runtime.identity import Identity, load, new, save
from ottla.runtime.seeds import Seeds
from ottla.runtime.timers import Deadline, Timers

log = logging.getLogger(__name__)

SAY_WHY_AFTER_MS = 3_000
SAY_WHY_EVERY_MS = 15_000


def identity_alone(disk: Disk, node_id: int, random: Random) -> Identity:
    """Of a node that nobody can reach: it is a cluster by itself, unless its directory says otherwise."""
    known = load(disk, node_id)
    if known is not None and known.cluster_id:
        if known.voters != (known.founder,):
            raise ConfigError(
                f"cluster_port: none is given, but the data directory is that of a node of cluster {known.cluster_id},"
                " which has others: start with the cluster_port that they know"
            )
        return known
    identity = known or new(node_id, random)
    alone = Founding(me=identity.founder, seeds=(), random=random, now_ms=0).outcome
    assert isinstance(alone, Formed)
    identity = identity.of(alone)
    save(disk, identity)
    return identity


class Forming:
    """`await formed()` once; whoever asks is answered until the socket is closed."""

    def __init__(
        self,
        *,
        disk: Disk,
        node_id: int,
        seeds: Sequence[str],
        own_seeds: Sequence[str],
        places: Seeds,
        socket: ClusterSocket,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
        random: Random,
    ) -> None:
        """`own_seeds`: those of the seeds that are this node's own address."""
        self._disk = disk
        self._identity = self._load(disk, node_id, random, is_alone=not seeds)
        self._places = places
        self._socket = socket
        self._clock = clock
        self._timers = timers
        self._founding = Founding(
            me=self._identity.founder,
            seeds=seeds,
            own_seeds=own_seeds,
            formed=self._identity.formed,
            random=random,
            now_ms=clock.monotonic_ms(),
        )
        self._done: asyncio.Future[Identity] = loop.create_future()
        self._timer: Deadline | None = None
        self._say_why_ms = clock.monotonic_ms() + SAY_WHY_AFTER_MS

    @staticmethod
    def _load(disk: Disk, node_id: int, random: Random, *, is_alone: bool) -> Identity:
        """A founder's directory id must be on disk before anybody hears of it."""
        identity = load(disk, node_id)
        if identity is None:
            identity = new(node_id, random)
            if not is_alone:
                save(disk, identity)
        return identity

    async def formed(self) -> Identity:
        """Who this node is, and of which cluster. Raises ConfigError if its seeds are of another one."""
        self._socket.on_founding = self._receive
        self._go_on()
        try:
            return await self._done
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def established(self) -> None:
        """The cluster has a leader: others may join it."""
        self._founding.is_established = True

    def address_of(self, node_id: int) -> Address | None:
        """Where a founder was when it answered."""
        for seed, found in self._founding.seeds_heard().items():
            if found == node_id:
                return self._places.address(seed)
        return None

    def _receive(self, packet: bytes, sender: Address) -> None:
        answer = self._founding.receive(packet, self._clock.monotonic_ms()).answer
        if answer is not None:
            self._socket.send(sender, answer)
        self._go_on()

    def _go_on(self) -> None:
        if self._done.done():
            return
        now_ms = self._clock.monotonic_ms()
        for seed, packet in self._founding.tick(now_ms):
            address = self._places.address(seed)
            if address is not None:
                self._socket.send(address, packet)
        outcome = self._founding.outcome
        if outcome is not None:
            self._conclude(outcome)
        else:
            self._say_why(now_ms)
            self._arm(now_ms)

    def _arm(self, now_ms: int) -> None:
        due_ms = self._founding.next_deadline_ms()
        if self._timer is not None:
            self._timer.cancel()
        if due_ms is not None:
            self._timer = self._timers.after_ms(max(0, due_ms - now_ms), self._go_on)

    def _say_why(self, now_ms: int) -> None:
        if now_ms >= self._say_why_ms:
            self._say_why_ms = now_ms + SAY_WHY_EVERY_MS
            log.warning("node %d is in no cluster yet: it waits, as %s", self._identity.node_id, self._why())

    def _why(self) -> str:
        return self._founding.waits_for()

    def _conclude(self, outcome: Formed | Refused) -> None:
        if isinstance(outcome, Refused):
            self._done.set_exception(ConfigError(outcome.sentence))
            return
        try:
            self._settle(outcome)
        except OSError as error:
            self._done.set_exception(error)
        else:
            self._done.set_result(self._identity)

    def _settle(self, formed: Formed) -> None:
        if not self._identity.cluster_id:
            self._identity = self._identity.of(formed)
            save(self._disk, self._identity)
            log.info(
                "node %d %s cluster %s",
                self._identity.node_id,
                "is a founder of" if formed.is_founder else "joins",
                formed.cluster_id,
            )
        self._founding.settled()
