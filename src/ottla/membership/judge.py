"""What to believe: news of a member against what is known of it.

Within one run of a member (one process of it), the higher incarnation wins, and within one incarnation the worse
status; only the member itself raises its incarnation. So whatever the order in which news arrives, everybody ends up
believing the same, and a member that is alive always has the last word.

    news        is believed of a member that is
    ALIVE       unknown; or known with a lower incarnation, and has not left
    SUSPECT     alive with at most this incarnation, or failed with a lower one; a second accuser confirms
    FAILED      live with at most this incarnation
    LEFT        live or failed, with at most this incarnation

What comes with a SYNC is not news but somebody's memory, perhaps of the other half of a network that was cut in two: a
failure that is remembered there only makes the member a suspect here, so that it can deny it first.

Between two runs of one node id the later counts if the earlier is gone, or was at the same address, where only one
process can be. If the earlier is alive elsewhere, then two processes use one node id: the first keeps its place and the
conflict is reported. News of an earlier run is old.
"""

from dataclasses import replace

from ottla.config.membership import GossipConfig
from ottla.config.units import MINUTE_MS
from ottla.errors import broken
from ottla.membership.effects import Change, MemberChanged, NodeIdConflict
from ottla.membership.health import Health
from ottla.membership.limiter import Limiter
from ottla.membership.member import UINT32_MAX, UINT64_MAX, Address, Member, Status
from ottla.membership.outbox import Outbox
from ottla.membership.roster import Roster, status_entry
from ottla.membership.suspicion import Patience, Suspicion
from ottla.membership.wire import Alive, Entry, Failed, Left, Loaded, Suspect, encode_entry

REPORT_EVERY_MS = MINUTE_MS


class Judge:
    __slots__ = ("_config", "_health", "_limiter", "_outbox", "_roster", "_suspicions", "returned")

    def __init__(self, roster: Roster, outbox: Outbox, health: Health, limiter: Limiter, config: GossipConfig) -> None:
        self._roster = roster
        self._outbox = outbox
        self._health = health
        self._limiter = limiter
        self._config = config
        self._suspicions: dict[int, Suspicion] = {}
        self.returned: Member | None = None
        """One that came back after it had failed: its side of the network may know much that this side does not."""

    def recall(self, entry: Entry, now_ms: int) -> None:
        """Somebody's memory."""
        self.hear(Suspect(*entry) if isinstance(entry, Failed) else entry, now_ms)

    def hear(self, entry: Entry, now_ms: int) -> None:
        """News."""
        if entry.node_id == self._roster.me.node_id:
            self._hear_of_myself(entry, now_ms)
            return
        held = self._roster.get(entry.node_id)
        if isinstance(entry, Alive):
            self._hear_alive(held, entry, now_ms)
        elif held is None or entry.run_id != held.run_id:
            return
        elif isinstance(entry, Loaded):
            self._hear_load(held, entry)
        elif entry.incarnation >= held.incarnation:
            self._hear_bad_news(held, entry, now_ms)

    # Good news

    def _hear_alive(self, held: Member | None, entry: Alive, now_ms: int) -> None:
        if held is None:
            if not self._roster.is_full:
                self._welcome(entry, Change.JOINED, now_ms)
        elif entry.run_id == held.run_id:
            if entry.incarnation > held.incarnation and held.status != Status.LEFT:
                self._revive(held, entry, now_ms)
        elif entry.run_id > held.run_id:
            if held.is_live and entry.gossip != held.gossip:
                self.report_conflict(entry.node_id, held.gossip, entry.gossip, now_ms)
            else:
                self._welcome(entry, Change.RESTARTED if held.is_live else Change.JOINED, now_ms)

    def _welcome(self, entry: Alive, change: Change, now_ms: int) -> None:
        self._suspicions.pop(entry.node_id, None)
        self._believe(member_of(entry, now_ms), change, entry)

    def _revive(self, held: Member, entry: Alive, now_ms: int) -> None:
        self._suspicions.pop(entry.node_id, None)
        member = replace(member_of(entry, now_ms), load=held.load, load_version=held.load_version)
        if held.status == Status.ALIVE:
            moved = (held.gossip, held.kafka, held.rack) != (entry.gossip, entry.kafka, entry.rack)
            self._believe(replace(member, since_ms=held.since_ms), Change.UPDATED if moved else None, entry)
            return
        if held.status == Status.FAILED:
            self.returned = member
        self._believe(member, Change.ALIVE, entry)

    def _hear_load(self, held: Member, entry: Loaded) -> None:
        if entry.version > held.load_version and held.is_live:
            member = replace(held, load=entry.load, load_version=entry.version)
            self._roster.put(member)
            self._outbox.rumours.spread_idly(entry.node_id, encode_entry(entry))
            self._outbox.tell(MemberChanged(change=Change.UPDATED, member=member))

    # Bad news

    def _hear_bad_news(self, held: Member, entry: Suspect | Failed | Left, now_ms: int) -> None:
        if held.status == Status.LEFT:
            return
        is_later = entry.incarnation > held.incarnation
        if isinstance(entry, Left):
            self._part(held, entry, Change.LEFT, Status.LEFT, now_ms)
        elif isinstance(entry, Failed):
            if held.is_live or is_later:
                self._part(held, entry, Change.FAILED if held.is_live else None, Status.FAILED, now_ms)
        elif held.is_live or is_later:
            self._suspect(held, entry.incarnation, entry.accuser, now_ms)

    def accuse(self, node_id: int, run_id: int, now_ms: int) -> None:
        """This node itself got no answer."""
        held = self._roster.get(node_id)
        if held is not None and held.run_id == run_id and held.is_live:
            self._suspect(held, held.incarnation, self._roster.me.node_id, now_ms)

    def _suspect(self, held: Member, incarnation: int, accuser: int, now_ms: int) -> None:
        known = self._suspicions.get(held.node_id)
        entry = Suspect(held.node_id, held.run_id, incarnation, accuser)
        if known is not None and incarnation == held.incarnation:
            if known.confirm(accuser):
                self._outbox.rumours.spread(held.node_id, encode_entry(entry))
            return
        patience = Patience.of(self._config, self._roster.view.size)
        self._suspicions[held.node_id] = Suspicion(patience, accuser, now_ms)
        member = replace(held, incarnation=incarnation, status=Status.SUSPECT, since_ms=now_ms)
        self._believe(member, None if held.status == Status.SUSPECT else Change.SUSPECTED, entry)

    def expire(self, now_ms: int) -> None:
        """Those who had time enough to say that they are alive have failed."""
        due = [node_id for node_id, suspicion in self._suspicions.items() if suspicion.deadline_ms <= now_ms]
        for node_id in due:
            held = self._roster.get(node_id) or broken(f"nothing is known of {node_id}, a suspect")
            entry = Failed(node_id, held.run_id, held.incarnation, self._roster.me.node_id)
            self._part(held, entry, Change.FAILED, Status.FAILED, now_ms)

    def to_be_called(self, now_ms: int) -> list[Member]:
        """The suspects whom it is time to tell."""
        due = [node_id for node_id, suspicion in self._suspicions.items() if suspicion.call_ms <= now_ms]
        for node_id in due:
            self._suspicions[node_id].called(now_ms)
        return [member for member in map(self._roster.get, due) if member is not None]

    def _part(self, held: Member, entry: Failed | Left, change: Change | None, status: Status, now_ms: int) -> None:
        self._suspicions.pop(held.node_id, None)
        member = replace(held, incarnation=entry.incarnation, status=status, since_ms=now_ms)
        self._believe(member, change, entry)

    def _believe(self, member: Member, change: Change | None, entry: Entry) -> None:
        self._roster.put(member)
        self._outbox.rumours.spread(member.node_id, encode_entry(entry))
        if change is not None:
            self._outbox.tell(MemberChanged(change=change, member=member))

    # Timers

    def next_deadline_ms(self) -> int | None:
        suspicions = self._suspicions.values()
        return min((min(suspicion.call_ms, suspicion.deadline_ms) for suspicion in suspicions), default=None)

    def postpone(self, by_ms: int) -> None:
        """This node slept: the time does not count against those who could not be heard."""
        for suspicion in self._suspicions.values():
            suspicion.postpone(by_ms)

    def forget(self, now_ms: int) -> None:
        """Those who have been gone for long."""
        for member in self._roster.view.gone:
            if now_ms - member.since_ms >= self._config.forget_failed_ms:
                self._outbox.rumours.forget(member.node_id)
                self._roster.remove(member.node_id)

    # Of this node itself

    def _hear_of_myself(self, entry: Entry, now_ms: int) -> None:
        me = self._roster.me
        if isinstance(entry, Loaded) or entry.run_id < me.run_id:
            return
        if entry.run_id == me.run_id:
            self._hear_of_this_run(me, entry)
        elif isinstance(entry, Alive) and entry.gossip != me.gossip:
            self.report_conflict(me.node_id, me.gossip, entry.gossip, now_ms)
        elif not isinstance(entry, Suspect):
            self._begin_anew(entry.run_id)

    def _hear_of_this_run(self, me: Member, entry: Alive | Suspect | Failed | Left) -> None:
        if isinstance(entry, Left):
            self._begin_anew(entry.run_id)
        elif entry.incarnation > me.incarnation or (
            entry.incarnation == me.incarnation and not isinstance(entry, Alive)
        ):
            self.refute(entry.incarnation)

    def refute(self, incarnation: int) -> None:
        """Somebody says of this node, in `incarnation`, what is not so."""
        self._health.worse()
        self._roster.me = replace(self._roster.me, incarnation=min(incarnation + 1, UINT32_MAX))
        self.announce()

    def _begin_anew(self, run_id: int) -> None:
        """An earlier run of this node has a higher number, since the clock was set back: take a higher one still."""
        self._roster.me = replace(self._roster.me, run_id=min(run_id + 1, UINT64_MAX), incarnation=0)
        self._outbox.introduce(self._outbox.cluster_id)
        self.announce()

    def announce(self) -> None:
        me = self._roster.me
        self._outbox.rumours.spread(me.node_id, encode_entry(status_entry(me, me.node_id)))

    def report_conflict(self, node_id: int, held_by: Address, claimed_by: Address, now_ms: int) -> None:
        if self._limiter.allows((node_id, held_by, claimed_by), now_ms, every_ms=REPORT_EVERY_MS):
            self._outbox.tell(NodeIdConflict(node_id=node_id, held_by=held_by, claimed_by=claimed_by))


def member_of(entry: Alive, now_ms: int) -> Member:
    return Member(
        node_id=entry.node_id,
        run_id=entry.run_id,
        incarnation=entry.incarnation,
        gossip=entry.gossip,
        kafka=entry.kafka,
        rack=entry.rack,
        since_ms=now_ms,
    )
