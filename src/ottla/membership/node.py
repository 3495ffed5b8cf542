"""The membership of one node: stimuli in, effects out.

Time is an argument, in milliseconds of a clock that only goes forward; it need not agree with anybody else's. The
runtime sends the packets of every `Effects`, acts on its events, and calls `tick` at `next_deadline_ms()`, which every
call may change. Calling it more often does no harm, late only makes this node slow to notice: it knows that it was
late, and holds it against nobody.
"""

from collections.abc import Sequence
from dataclasses import replace

from ottla.config.membership import GossipConfig
from ottla.config.units import SECOND_MS
from ottla.errors import ConfigError, ProtocolError, invariant
from ottla.membership.chance import sample
from ottla.membership.counters import Counters
from ottla.membership.effects import ClusterAdopted, Effects, ForeignCluster
from ottla.membership.health import Health
from ottla.membership.judge import REPORT_EVERY_MS, Judge
from ottla.membership.limiter import Limiter
from ottla.membership.member import NODE_ID_MAX, UINT32_MAX, UINT64_MAX, Address, Load, Member, Status
from ottla.membership.outbox import Outbox
from ottla.membership.prober import Prober
from ottla.membership.roster import Roster, all_entries, status_entry
from ottla.membership.syncer import Syncer
from ottla.membership.wire import (
    TEXT_BYTES_MAX,
    Ack,
    Alive,
    Gossip,
    Loaded,
    Nack,
    Packet,
    Ping,
    PingRequest,
    Refused,
    Sync,
    SyncReply,
    decode,
    encode_entry,
)
from ottla.ports import Random

GREET_EVERY_MS = 2 * SECOND_MS
REFUSE_EVERY_MS = SECOND_MS
HEAL_EVERY_MS = SECOND_MS


class Membership:
    """One node's part in the gossip."""

    def __init__(
        self,
        *,
        cluster_id: str,
        node_id: int,
        gossip: Address,
        kafka: Address,
        rack: str | None = None,
        started_ms: int,
        config: GossipConfig,
        random: Random,
        now_ms: int,
    ) -> None:
        """`cluster_id` is empty as long as there is none. `started_ms` is the calendar's time at which this process
        started, by which it is told from earlier ones of the same node."""
        _check(cluster_id, node_id, gossip, kafka, rack or "")
        run_id = _within((started_ms << 16) + random.randint(0, 2**16 - 1), UINT64_MAX)
        me = Member(node_id=node_id, run_id=run_id, gossip=gossip, kafka=kafka, rack=rack or None, since_ms=now_ms)
        self.counters = Counters()
        self._config = config
        self._random = random
        self._roster = Roster(me)
        self._outbox = Outbox(self._roster, cluster_id, config.packet_bytes_max)
        self._health = Health()
        self._limiter = Limiter()
        self._judge = Judge(self._roster, self._outbox, self._health, self._limiter, config)
        self._prober = Prober(self._roster, self._outbox, self._judge, self._health, random, config)
        self._syncer = Syncer(self._roster, self._outbox, random, config)
        self._load = me.load
        self._load_ms = now_ms
        self._gossip_ms = now_ms
        self._probe_ms = now_ms + random.randint(0, config.probe_interval_ms)
        self._now_ms = now_ms
        self._due_ms: int | None = now_ms

    # What is known

    @property
    def cluster_id(self) -> str:
        return self._outbox.cluster_id

    @property
    def me(self) -> Member:
        return self._roster.me

    @property
    def health_score(self) -> int:
        """0: well; up to 8: this node is slow or badly connected, and knows it."""
        return self._health.score

    def members(self) -> Sequence[Member]:
        """Everybody known, this node included, by node id; those that failed or left too, until they are forgotten."""
        return self._roster.view.everybody

    def member(self, node_id: int) -> Member | None:
        return self.me if node_id == self.me.node_id else self._roster.get(node_id)

    @property
    def next_probe_ms(self) -> int:
        """When the next member is probed; a little later does no harm."""
        return self._probe_ms

    def next_deadline_ms(self) -> int | None:
        """When `tick` should next be called; None: not before something else happens."""
        return self._due_ms

    # Stimuli

    def join(self, seeds: Sequence[Address], now_ms: int) -> Effects:
        """Look for members at `seeds`, in place of those given before. This node itself may be among them."""
        self._syncer.join(seeds, now_ms)
        return self.tick(now_ms)

    def adopt_cluster(self, cluster_id: str, now_ms: int) -> Effects:
        """This node, which had no cluster, is now of this one."""
        invariant(self.cluster_id in ("", cluster_id), f"{self.cluster_id} can't become {cluster_id}")
        self._enter_cluster(cluster_id)
        return self.tick(now_ms)

    def set_load(self, load: Load) -> None:
        """What this node carries now. Others hear of it by and by."""
        wide, narrow = load[:2], load[2:]
        self._load = Load(*(_within(figure, UINT64_MAX) for figure in wide), *(_within(n, UINT32_MAX) for n in narrow))

    def accuse(self, node_id: int, now_ms: int) -> Effects:
        """This node has seen for itself that a member is not there: it need not be probed first."""
        self._advance(now_ms)
        member = self._roster.get(node_id)
        if self.me.status != Status.LEFT and member is not None:
            self._judge.accuse(node_id, member.run_id, self._now_ms)
        return self._effects()

    def leave(self, now_ms: int) -> Effects:
        """Say goodbye to everybody. Nothing is listened to any more; once `next_deadline_ms` is None all is said."""
        self._advance(now_ms)
        me = self._roster.me = replace(self.me, status=Status.LEFT, since_ms=now_ms)
        for member in self._roster.view.live:
            self._outbox.send(member.gossip, Gossip(), [encode_entry(status_entry(me, me.node_id))])
        self._judge.announce()
        self._gossip_ms = now_ms + self._config.gossip_interval_ms
        return self._effects()

    def tick(self, now_ms: int) -> Effects:
        self._advance(now_ms)
        if self.me.status != Status.LEFT:
            self._prober.expire(self._now_ms)
            self._judge.expire(self._now_ms)
            self._prober.call(self._now_ms)
            self._probe()
            self._syncer.tick(self._now_ms)
            self._judge.forget(self._now_ms)
            self._publish_load()
        return self._effects()

    def receive(self, packet: bytes, sender: Address, now_ms: int) -> Effects:
        """A datagram of anybody. Whatever is in it, this does not raise."""
        self._advance(now_ms)
        self.counters.received(len(packet))
        try:
            decoded = decode(packet)
        except ProtocolError:
            self.counters.garbage += 1
            return self._effects()
        if self.me.status != Status.LEFT and self._is_of_this_cluster(decoded, sender):
            self._read(decoded, sender)
        return self._effects()

    # Time

    def _advance(self, now_ms: int) -> None:
        self._now_ms = max(now_ms, self._now_ms)
        late_ms = self._now_ms - self._due_ms if self._due_ms is not None else 0
        if late_ms > self._config.probe_timeout_ms:
            self._prober.postpone(late_ms)
            self._judge.postpone(late_ms)
            self._health.worse()
            self._due_ms = self._now_ms

    def _effects(self) -> Effects:
        self._heal()
        self._gossip()
        self._due_ms = self._next_deadline_ms()
        effects = self._outbox.drain()
        self.counters.sent(effects.packets)
        self.counters.told(effects.events)
        return effects

    def _next_deadline_ms(self) -> int | None:
        view = self._roster.view
        deadlines: list[int | None] = []
        if self._outbox.rumours.is_urgent and view.live:
            deadlines.append(self._gossip_ms)
        if self.me.status != Status.LEFT:
            deadlines += [
                self._probe_ms if view.live or view.failed else None,
                self._prober.next_deadline_ms(),
                self._judge.next_deadline_ms(),
                self._syncer.next_deadline_ms(),
                self._load_ms if self._load != self.me.load else None,
            ]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _probe(self) -> None:
        if self._now_ms >= self._probe_ms:
            self._probe_ms = self._now_ms + self._health.scaled(self._config.probe_interval_ms)
            self._prober.turn(self._now_ms)

    def _gossip(self) -> None:
        """News leaves at once, and again every interval while it is news."""
        if self._now_ms < self._gossip_ms or not self._outbox.rumours.is_urgent or not self._roster.view.live:
            return
        self._gossip_ms = self._now_ms + self._config.gossip_interval_ms
        for member in sample(self._random, self._roster.view.live, self._config.gossip_nodes):
            if self._outbox.rumours.is_urgent:
                self._outbox.send(member.gossip, Gossip())

    def _heal(self) -> None:
        returned, self._judge.returned = self._judge.returned, None
        if returned is not None and self._limiter.allows("heal", self._now_ms, every_ms=HEAL_EVERY_MS):
            self._syncer.exchange_with(returned.gossip)

    def _publish_load(self) -> None:
        me = self.me
        if self._load == me.load or self._now_ms < self._load_ms:
            return
        self._load_ms = self._now_ms + self._config.load_interval_ms
        self._roster.me = replace(me, load=self._load, load_version=min(me.load_version + 1, UINT32_MAX))
        entry = Loaded(me.node_id, me.run_id, self.me.load_version, self._load)
        self._outbox.rumours.spread_idly(me.node_id, encode_entry(entry))

    # Packets

    def _is_of_this_cluster(self, packet: Packet, sender: Address) -> bool:
        if packet.cluster_id in ("", self.cluster_id):
            return True
        if not self.cluster_id and self._may_lead(packet):
            self._enter_cluster(packet.cluster_id)
            self._outbox.tell(ClusterAdopted(cluster_id=packet.cluster_id))
            return True
        self._report_foreign(packet, sender)
        return False

    def _enter_cluster(self, cluster_id: str) -> None:
        """Those whom this node has met follow it there as soon as they hear from it, so it speaks."""
        self._outbox.introduce(cluster_id)
        self._judge.announce()

    def _report_foreign(self, packet: Packet, sender: Address) -> None:
        """One report per second, whoever calls, and one per minute of the same cluster."""
        self.counters.foreign += 1
        if self._limiter.allows("foreign", self._now_ms, every_ms=SECOND_MS) and self._limiter.allows(
            ("foreign", packet.cluster_id), self._now_ms, every_ms=REPORT_EVERY_MS
        ):
            self._outbox.tell(ForeignCluster(cluster_id=packet.cluster_id, node_id=packet.node_id, address=sender))
        if isinstance(packet.message, Sync):
            self._refuse(sender, [])

    def _may_lead(self, packet: Packet) -> bool:
        """A node without a cluster follows those it asked and those it has met, not whoever happens to call: its
        address may have been that of a member of some other cluster."""
        known = self._roster.get(packet.node_id)
        if known is not None and known.run_id == packet.run_id:
            return True
        return isinstance(packet.message, SyncReply) and self._syncer.is_answer(packet.message)

    def _read(self, packet: Packet, sender: Address) -> None:
        if packet.node_id == self.me.node_id:
            self._meet_namesake(packet, sender)
            return
        self._hear(packet)
        self._greet(packet, sender)
        match packet.message:
            case Ping():
                self._answer_ping(packet.message, packet, sender)
            case Ack():
                self._prober.acked(packet.message)
            case Nack():
                self._prober.nacked(packet.message)
            case PingRequest():
                self._prober.relay(packet.message, sender, self._now_ms)
            case Sync():
                self._syncer.answer(packet.message, packet.node_id, sender)

    def _hear(self, packet: Packet) -> None:
        match packet.message:
            case Sync() | SyncReply():
                for entry in packet.entries:
                    self._judge.recall(entry, self._now_ms)
            case Refused():
                self._hear_refusal(packet)
            case _:
                for entry in packet.entries:
                    self._judge.hear(entry, self._now_ms)

    def _answer_ping(self, ping: Ping, packet: Packet, sender: Address) -> None:
        """Whoever does not believe that this node is alive gets its word with the answer: it may have missed it."""
        me = self.me
        if ping.target != me.node_id:
            self.counters.misaddressed += 1
            return
        first = self._prober.reproach(self._roster.get(packet.node_id))
        if any(entry.node_id == me.node_id and not isinstance(entry, Alive | Loaded) for entry in packet.entries):
            first.append(encode_entry(status_entry(me, me.node_id)))
        self._outbox.send(sender, Ack(ping.sequence, me.node_id, me.run_id), first)

    def _greet(self, packet: Packet, sender: Address) -> None:
        """A sender that is not known as what it says it is: ask it who it is, or tell it who it can't be."""
        held = self._roster.get(packet.node_id)
        if held is not None and held.run_id == packet.run_id:
            return
        is_stranger = held is None or packet.run_id > held.run_id
        if is_stranger and not isinstance(packet.message, Sync | SyncReply | Refused):
            if self._limiter.allows(("greet", sender), self._now_ms, every_ms=GREET_EVERY_MS):
                self._syncer.exchange_with(sender)
        elif held is not None and not isinstance(packet.message, Refused):
            self._refuse(sender, [encode_entry(entry) for entry in all_entries(held, self.me.node_id)])

    def _refuse(self, sender: Address, entries: Sequence[bytes]) -> None:
        if self._limiter.allows(("refuse", sender), self._now_ms, every_ms=REFUSE_EVERY_MS):
            self._outbox.send(sender, Refused(), entries)

    def _hear_refusal(self, packet: Packet) -> None:
        me = self.me
        for entry in packet.entries:
            if isinstance(entry, Alive) and entry.node_id == me.node_id and entry.gossip != me.gossip:
                self._judge.report_conflict(me.node_id, entry.gossip, me.gossip, self._now_ms)
            else:
                self._judge.hear(entry, self._now_ms)

    def _meet_namesake(self, packet: Packet, sender: Address) -> None:
        """A packet of this node id: this node's own that came back, an earlier process's that was late, or another
        node's that calls itself the same."""
        if packet.run_id == self.me.run_id:
            return
        for entry in packet.entries:
            if entry.node_id == self.me.node_id:
                self._judge.hear(entry, self._now_ms)
        if sender != self.me.gossip and packet.run_id < self.me.run_id:
            self._judge.report_conflict(self.me.node_id, sender, self.me.gossip, self._now_ms)
        if isinstance(packet.message, Sync):
            self._refuse(sender, [encode_entry(status_entry(self.me, self.me.node_id))])


def _within(figure: int, limit: int) -> int:
    return max(0, min(figure, limit))


def _check(cluster_id: str, node_id: int, gossip: Address, kafka: Address, rack: str) -> None:
    """What would not fit into a packet is refused at the start."""
    texts = {"cluster id": cluster_id, "gossip host": gossip.host, "Kafka host": kafka.host, "rack": rack}
    for name, text in texts.items():
        if len(text.encode()) > TEXT_BYTES_MAX:
            raise ConfigError(f"{name}: {text!r} can't be used; it must have at most {TEXT_BYTES_MAX} bytes")
    if not 0 <= node_id <= NODE_ID_MAX:
        raise ConfigError(f"node_id: {node_id} can't be used; it must be from 0 to {NODE_ID_MAX}")
