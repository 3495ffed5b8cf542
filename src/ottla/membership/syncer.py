"""Finding members, and comparing everything with one of them now and then.

A SYNC has all that the sender knows, in as many packets as it takes, and is answered with all that the receiver knows.
It is how a node joins (by way of a seed), how two halves of a healed network grow together, and how what gossip missed
is mended. A seed that no live member is known to be at is tried again for ever: every second while this node is alone,
less and less often once it is not.
"""

from collections.abc import Sequence

from ottla.config.membership import GossipConfig
from ottla.config.units import SECOND_MS
from ottla.membership.chance import around, sample
from ottla.membership.member import UINT32_MAX, Address
from ottla.membership.outbox import Outbox
from ottla.membership.roster import Roster, all_entries
from ottla.membership.wire import Sync, SyncReply, encode_entry
from ottla.ports import Random

SEEK_ALONE_MS = SECOND_MS
REMEMBERED_MAX = 1_024
"""Syncs of others that were answered, and own ones whose answer is awaited."""


class Syncer:
    __slots__ = (
        "_answered", "_config", "_exchange_ms", "_outbox", "_own", "_random", "_roster", "_seeds", "_seek_ms",
        "_seek_pause_ms",
    )  # fmt: skip

    def __init__(self, roster: Roster, outbox: Outbox, random: Random, config: GossipConfig) -> None:
        self._roster = roster
        self._outbox = outbox
        self._random = random
        self._config = config
        self._seeds: list[Address] = []
        self._seek_ms: int | None = None
        self._seek_pause_ms = 0
        self._exchange_ms: int | None = None
        self._answered: dict[int, int] = {}
        self._own: dict[int, None] = {}

    def join(self, seeds: Sequence[Address], now_ms: int) -> None:
        me = self._roster.me.gossip
        self._seeds = [seed for seed in dict.fromkeys(seeds) if seed != me]
        self._seek_ms = now_ms if self._seeds else None
        self._seek_pause_ms = SEEK_ALONE_MS // 2

    def tick(self, now_ms: int) -> None:
        if self._seek_ms is not None and self._seek_ms <= now_ms:
            self._seek(now_ms)
        if self._exchange_ms is None:
            self._exchange_ms = now_ms + self._random.randint(1, self._config.push_pull_interval_ms)
        elif self._exchange_ms <= now_ms:
            self._exchange_ms = now_ms + around(self._random, self._config.push_pull_interval_ms)
            for member in sample(self._random, self._roster.view.live, 1):
                self.exchange_with(member.gossip)

    def next_deadline_ms(self) -> int | None:
        if self._exchange_ms is None or self._seek_ms is None:
            return self._exchange_ms if self._seek_ms is None else self._seek_ms
        return min(self._seek_ms, self._exchange_ms)

    def _seek(self, now_ms: int) -> None:
        """A few at a time: the list may be long."""
        live = self._roster.view.live
        here = {member.gossip for member in live}
        missing = [seed for seed in self._seeds if seed not in here]
        for seed in sample(self._random, missing, self._config.gossip_nodes):
            self.exchange_with(seed)
        pause_ms = 2 * self._seek_pause_ms if live else SEEK_ALONE_MS
        self._seek_pause_ms = min(pause_ms, self._config.push_pull_interval_ms)
        self._seek_ms = now_ms + around(self._random, self._seek_pause_ms)

    def exchange_with(self, address: Address) -> None:
        sync_id = self._random.randint(0, UINT32_MAX)
        self._own[sync_id] = None
        if len(self._own) > REMEMBERED_MAX:
            del self._own[next(iter(self._own))]
        self._send_all(address, Sync(sync_id))

    def is_answer(self, reply: SyncReply) -> bool:
        """Whether this node has asked for it."""
        return reply.sync_id in self._own

    def answer(self, request: Sync, asker: int, address: Address) -> None:
        """Once, however many packets the request came in."""
        if self._answered.get(asker) == request.sync_id:
            return
        self._answered.pop(asker, None)
        self._answered[asker] = request.sync_id
        if len(self._answered) > REMEMBERED_MAX:
            del self._answered[next(iter(self._answered))]
        self._send_all(address, SyncReply(request.sync_id))

    def _send_all(self, address: Address, message: Sync | SyncReply) -> None:
        view = self._roster.view
        members = (view.me, *view.others)
        entries = (entry for member in members for entry in all_entries(member, view.me.node_id))
        self._outbox.send_pages(address, message, [encode_entry(entry) for entry in entries])
