"""How long a suspected member has to say that it is alive.

The more members say independently that they got no answer, the surer it is, and the shorter the wait: from `max` down
to `min` by the logarithm of their number. A node whose own network is broken finds nobody who agrees with it, and so
waits longest. `min` grows with the logarithm of the size of the cluster, as the time that news takes does.

Meanwhile the suspect is told a few times what is said of it, directly: it may not have heard, or its word got lost.
"""

from math import log, log10

from ottla.config.membership import GossipConfig
from ottla.values import value

CONFIRMATIONS_WANTED = 3
MAX_BY_MIN = 3
CALLS = 8
"""How often a suspect is told within the shortest wait. With a fifth of all packets lost, a call and its answer get
through two times in three; with 8 calls a living member goes unheard once in 3,500 suspicions that gossip did not
settle, which are rare themselves (decisions/0011)."""


@value
class Patience:
    """What a suspicion that begins in a cluster of a certain size has to wait."""

    min_ms: int
    max_ms: int
    confirmations: int
    """How many accusers besides the first bring it down to `min_ms`."""

    @classmethod
    def of(cls, config: GossipConfig, member_count: int) -> "Patience":
        """In a cluster of two nobody is left who could confirm, so nothing is waited for."""
        min_ms = int(config.suspicion_multiplier * config.probe_interval_ms * max(1.0, log10(member_count)))
        confirmations = max(0, min(CONFIRMATIONS_WANTED, member_count - 2))
        return cls(min_ms=min_ms, max_ms=MAX_BY_MIN * min_ms, confirmations=confirmations)

    def timeout_ms(self, confirmations: int) -> int:
        if confirmations >= self.confirmations:
            return self.min_ms
        share = log(confirmations + 1) / log(self.confirmations + 1)
        return int(self.max_ms - share * (self.max_ms - self.min_ms))


class Suspicion:
    """One suspected member: since when, and who says so."""

    __slots__ = ("_accusers", "_patience", "call_ms", "started_ms")

    def __init__(self, patience: Patience, accuser: int, now_ms: int) -> None:
        self._patience = patience
        self._accusers = {accuser}
        self.started_ms = now_ms
        self.call_ms = now_ms
        self.called(now_ms)

    def called(self, now_ms: int) -> None:
        self.call_ms = now_ms + max(1, self._patience.min_ms // CALLS)

    def postpone(self, by_ms: int) -> None:
        self.started_ms += by_ms

    def confirm(self, accuser: int) -> bool:
        """True if that was news, and worth passing on."""
        if accuser in self._accusers or len(self._accusers) > self._patience.confirmations:
            return False
        self._accusers.add(accuser)
        return True

    @property
    def deadline_ms(self) -> int:
        return self.started_ms + self._patience.timeout_ms(len(self._accusers) - 1)
