"""Tells the controller, while it is in this node, whom gossip takes for dead, and whose process has ended: it then
looks at once.

Whom gossip has not met at all counts too, some time after this node has started: when a whole cluster comes back, those
who do not should not be waited for longer than others who die.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import BrokerError

if TYPE_CHECKING:
    from ottla.membership import MemberChanged
    from ottla.runtime.gossip import Gossip
    from ottla.runtime.metadata import Metadata
    from ottla.runtime.timers import Timers

NOBODY: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
MEETING_MS = 2_000
"""In which everybody who is there is met."""


class Hints:
    def __init__(self, metadata: Metadata, gossip: Gossip, timers: Timers) -> None:
        self._metadata = metadata
        self._gossip = gossip
        self._told = NOBODY
        self._have_met = False
        timers.after_ms(MEETING_MS, self._all_have_met)
        metadata.on_active(self._on_active)
        gossip.on_change(self._on_change)
        self._on_active(metadata.is_active)

    def _on_active(self, is_active: bool) -> None:
        """A new controller knows nothing of it."""
        self._told = NOBODY
        if is_active:
            self.tell()

    def _on_change(self, _event: MemberChanged) -> None:
        self.tell()

    def _all_have_met(self) -> None:
        self._have_met = True
        self.tell()

    def _dead(self) -> frozenset[int]:
        dead = self._gossip.dead()
        if not self._have_met:
            return dead
        return dead.union(id_ for id_ in self._metadata.image.brokers if self._gossip.member(id_) is None)

    def tell(self) -> None:
        dead, ended = self._dead(), self._gossip.ended()
        if (dead, ended) == self._told or not self._metadata.is_active:
            return
        try:
            self._metadata.call(lambda controller, _token, _now_ms: controller.suspect(dead, ended))
        except BrokerError:
            return  # leadership ended in this very moment: the next controller is told by its own node
        self._told = dead, ended
