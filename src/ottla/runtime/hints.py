"""Tells the controller, while it is in this node, whom gossip takes for dead: it then looks at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import BrokerError

if TYPE_CHECKING:
    from ottla.membership import MemberChanged
    from ottla.runtime.gossip import Gossip
    from ottla.runtime.metadata import Metadata


class Hints:
    def __init__(self, metadata: Metadata, gossip: Gossip) -> None:
        self._metadata = metadata
        self._gossip = gossip
        self._told: frozenset[int] = frozenset()
        metadata.on_active(self._on_active)
        gossip.on_change(self._on_change)
        self._on_active(metadata.is_active)

    def _on_active(self, is_active: bool) -> None:
        """A new controller knows nothing of it."""
        self._told = frozenset()
        if is_active:
            self._tell()

    def _on_change(self, _event: MemberChanged) -> None:
        self._tell()

    def _tell(self) -> None:
        dead = self._gossip.dead()
        if dead == self._told or not self._metadata.is_active:
            return
        try:
            self._metadata.call(lambda controller, _token, _now_ms: controller.suspect(dead))
        except BrokerError:
            return  # leadership ended in this very moment: the next controller is told by its own node
        self._told = dead
