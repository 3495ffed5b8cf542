"""Who is alive: one member is probed per interval, by way of others too before it is suspected.

Every second probe goes round the live members in shuffled order, as in SWIM. The other one goes to the successor, the
next unsuspected member by node id: so everybody is watched by somebody at all times, and is missed within two
intervals, whatever the size of the cluster; chance alone takes much longer now and then (decisions/0011). A probe:

    0          PING to the member; where it is suspected the packet says so first, for it to deny
    timeout    PING again, and PING_REQUEST to a few others, who probe in their turn
    again      no ACK of anybody: the member is suspected

Those others say NACK in time if they get no ACK either. Whoever hears neither knows that the trouble may be its own.
"""

from collections.abc import Iterator

from ottla.config.membership import GossipConfig
from ottla.membership.chance import sample, shuffled
from ottla.membership.health import Health
from ottla.membership.judge import Judge
from ottla.membership.member import UINT32_MAX, Address, Member, Status
from ottla.membership.outbox import Outbox
from ottla.membership.roster import Roster, status_entry
from ottla.membership.wire import Ack, Nack, Ping, PingRequest, encode_entry
from ottla.ports import Random

FAILED_EVERY_TURNS = 5
"""How often one that has failed is probed too: if it answers, a healed network grows together."""
RELAYS_MAX = 256
"""Probes on behalf of others at one time."""


class Probe:
    """One under way."""

    __slots__ = ("deadline_ms", "helpers", "is_indirect", "nacks", "node_id", "run_id")

    def __init__(self, target: Member, deadline_ms: int) -> None:
        self.node_id = target.node_id
        self.run_id = target.run_id
        self.deadline_ms = deadline_ms
        self.is_indirect = False
        self.helpers = 0
        self.nacks = 0


class Relay:
    """One under way on behalf of another member."""

    __slots__ = ("asked_as", "asker", "deadline_ms", "target")

    def __init__(self, request: PingRequest, asker: Address, deadline_ms: int) -> None:
        self.target = request.target
        self.asked_as = request.sequence
        self.asker = asker
        self.deadline_ms = deadline_ms


class Prober:
    __slots__ = (
        "_config", "_health", "_judge", "_outbox", "_probes", "_random", "_relays", "_roster", "_round", "_sequence",
        "_turns",
    )  # fmt: skip

    def __init__(
        self, roster: Roster, outbox: Outbox, judge: Judge, health: Health, random: Random, config: GossipConfig
    ) -> None:
        self._roster = roster
        self._outbox = outbox
        self._judge = judge
        self._health = health
        self._random = random
        self._config = config
        self._probes: dict[int, Probe] = {}
        self._relays: dict[int, Relay] = {}
        self._round: list[int] = []
        self._turns = 0
        self._sequence = random.randint(0, UINT32_MAX)

    def turn(self, now_ms: int) -> None:
        """Begin the next probe."""
        self._turns += 1
        target = self._roster.view.successor if self._turns % 2 else None
        target = target or self._next_in_round()
        if target is not None:
            sequence = self._ping(target)
            self._probes[sequence] = Probe(target, now_ms + self._timeout_ms())
        if self._turns % FAILED_EVERY_TURNS == 0:
            for failed in sample(self._random, self._roster.view.failed, 1):
                self._ping(failed)

    def _next_in_round(self) -> Member | None:
        if not self._roster.view.live:
            return None
        while True:
            if not self._round:
                self._round = shuffled(self._random, (member.node_id for member in self._roster.view.live))
            member = self._roster.get(self._round.pop())
            if member is not None and member.is_live:
                return member

    def _timeout_ms(self) -> int:
        return self._health.scaled(self._config.probe_timeout_ms)

    def _ping(self, target: Member, sequence: int | None = None) -> int:
        if sequence is None:
            sequence = self._sequence = (self._sequence + 1) & UINT32_MAX
        self._outbox.send(target.gossip, Ping(sequence, target.node_id), self.reproach(target))
        return sequence

    def reproach(self, member: Member | None) -> list[bytes]:
        """What a member should hear first: that it is not believed to be alive."""
        if member is None or member.status in (Status.ALIVE, Status.LEFT):
            return []
        return [encode_entry(status_entry(member, self._roster.me.node_id))]

    def call(self, now_ms: int) -> None:
        """Tell suspects what is said of them. What counts is what they say to it, not that they answer."""
        for suspect in self._judge.to_be_called(now_ms):
            self._ping(suspect)

    # Answers

    def acked(self, ack: Ack) -> None:
        probe = self._probes.get(ack.sequence)
        if probe is not None and (probe.node_id, probe.run_id) == (ack.node_id, ack.run_id):
            del self._probes[ack.sequence]
            self._health.better()
        relay = self._relays.get(ack.sequence)
        if relay is not None and relay.target == ack.node_id:
            del self._relays[ack.sequence]
            self._outbox.send(relay.asker, Ack(relay.asked_as, ack.node_id, ack.run_id))

    def nacked(self, nack: Nack) -> None:
        probe = self._probes.get(nack.sequence)
        if probe is not None:
            probe.nacks += 1

    def relay(self, request: PingRequest, asker: Address, now_ms: int) -> None:
        """Probe on behalf of `asker`, and answer before it gives up. Only where this node itself knows a member to be:
        nobody can have packets sent to an address of their choice."""
        target = self._roster.get(request.target)
        if target is not None and len(self._relays) < RELAYS_MAX:
            sequence = self._ping(target)
            self._relays[sequence] = Relay(request, asker, now_ms + self._config.probe_timeout_ms * 4 // 5)

    # Timers

    def next_deadline_ms(self) -> int | None:
        return min((item.deadline_ms for item in self._under_way()), default=None)

    def expire(self, now_ms: int) -> None:
        for sequence in [key for key, probe in self._probes.items() if probe.deadline_ms <= now_ms]:
            self._escalate(sequence, self._probes[sequence], now_ms)
        for sequence in [key for key, relay in self._relays.items() if relay.deadline_ms <= now_ms]:
            relay = self._relays.pop(sequence)
            self._outbox.send(relay.asker, Nack(relay.asked_as))

    def postpone(self, by_ms: int) -> None:
        """This node slept: nobody could have answered."""
        for item in self._under_way():
            item.deadline_ms += by_ms

    def _under_way(self) -> Iterator[Probe | Relay]:
        yield from self._probes.values()
        yield from self._relays.values()

    def _escalate(self, sequence: int, probe: Probe, now_ms: int) -> None:
        target = self._roster.get(probe.node_id)
        if target is None or target.run_id != probe.run_id or not target.is_live:
            del self._probes[sequence]
        elif probe.is_indirect:
            del self._probes[sequence]
            self._health.worse(by=1 if not probe.helpers else max(0, probe.helpers - probe.nacks))
            self._judge.accuse(probe.node_id, probe.run_id, now_ms)
        else:
            self._ask_others(sequence, probe, target)
            probe.deadline_ms = now_ms + self._timeout_ms()

    def _ask_others(self, sequence: int, probe: Probe, target: Member) -> None:
        self._ping(target, sequence)
        others = [
            member
            for member in self._roster.view.live
            if member.node_id != target.node_id and member.status == Status.ALIVE
        ]
        helpers = sample(self._random, others, self._config.indirect_probes)
        for helper in helpers:
            self._outbox.send(helper.gossip, PingRequest(sequence, target.node_id))
        probe.is_indirect = True
        probe.helpers = len(helpers)
