"""Brokers whose connections have just ended, and what clients are told meanwhile.

A client loses its connection at the same moment, and asks another broker who leads now, within the millisecond. The
cluster knows that some hundredths of a second later. Told what was true before, librdkafka looks again after a second.
So whoever asks in between is answered when the cluster has decided, or after a while if it has not.

The broker is listed for another second. librdkafka loses track of partitions whose old leader is missing from the same
answer that names the new one, and asks for them a second later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.services import Deferred

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.ports import Clock
    from ottla.runtime.timers import Deadline, Timers

LOOK_MS = 2
"""Who asks may have noticed first, by less than that: a process that ends hangs up on one after the other."""
WAIT_MS = 400
"""For the decision. What else was asked on the same connection waits along, since answers are in order."""
LISTED_MS = 1_000
AGAIN_MS = 5_000
"""After that a broker is waited for again: one that goes on hanging up without dying holds up nobody."""


class Vanished:
    def __init__(self, *, image: Callable[[], MetadataImage], clock: Clock, timers: Timers) -> None:
        self._image = image
        self._clock = clock
        self._timers = timers
        self._lost_ms: dict[int, int] = {}
        """When the connection to a broker has ended last."""
        self._undecided: dict[int, Deadline] = {}
        self._waiting: list[Deferred[None]] = []

    def lost(self, broker_id: int) -> None:
        """A connection to that broker has ended, and not by this node's will."""
        now_ms = self._clock.monotonic_ms()
        before_ms = self._lost_ms.get(broker_id)
        if self._is_in_service(broker_id) and (before_ms is None or now_ms >= before_ms + AGAIN_MS):
            self._lost_ms[broker_id] = now_ms
            self._undecided[broker_id] = self._timers.after_ms(WAIT_MS, lambda: self._decided(broker_id))

    def lost_at(self, address: tuple[str, int]) -> None:
        """The same, by the address that clients use."""
        for broker in self._image().brokers.values():
            if (broker.client_endpoint.host, broker.client_endpoint.port) == address:
                self.lost(broker.broker_id)

    def image_changed(self) -> None:
        for broker_id in [each for each in self._undecided if not self._is_in_service(each)]:
            self._decided(broker_id)

    def settled(self) -> Deferred[None] | None:
        """Done when it is known what becomes of all that have vanished; None if there is nobody who could."""
        if len(self._image().alive_brokers) < 2 and not self._undecided:
            return None
        done: Deferred[None] = Deferred()
        if self._undecided:
            self._waiting.append(done)
        else:
            self._timers.after_ms(LOOK_MS, lambda: self._looked(done))
        return done

    def _looked(self, done: Deferred[None]) -> None:
        if self._undecided:
            self._waiting.append(done)
        else:
            done.complete(None)

    def is_listed(self, broker_id: int) -> bool:
        """Whether a broker that is out of service should be named all the same."""
        lost_ms = self._lost_ms.get(broker_id)
        return lost_ms is not None and self._clock.monotonic_ms() < lost_ms + LISTED_MS

    def _is_in_service(self, broker_id: int) -> bool:
        broker = self._image().brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def _decided(self, broker_id: int) -> None:
        self._undecided.pop(broker_id).cancel()
        if not self._undecided:
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done.complete(None)
