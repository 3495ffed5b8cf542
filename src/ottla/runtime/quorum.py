"""Drives Raft for the metadata log: gives it time, messages and a disk, and does what it says must be done.

The order is that of `ottla.raft`: what a `Ready` wants on disk goes into one commit of the journal, together with
whatever else the node writes, and only when that is durable do messages leave and entries get applied. Meanwhile more
proposals and messages gather for the next Ready.

A single voter needs nobody and nothing by time: it leads with the first tick, and then there are no more until another
node asks for the log.

When the disk has no room. The commit is taken back, and with it what Raft had asked for: the node is then what a crash
would have left of it, so it is made anew from the disk, and tries again a little later. When the disk has failed for
good, this node takes part in nothing any more, and the others go on without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.errors import BrokerError, ErrorCode
from ottla.raft.entry import Entry, Snapshot
from ottla.raft.messages import InstallSnapshot, Message, Outgoing
from ottla.raft.node import RaftNode
from ottla.raft.ready import Leadership, Ready
from ottla.raft.settings import RaftSettings
from ottla.raft.status import Status
from ottla.raft.voters import Voter, VoterSet
from ottla.runtime.beats import towards_beat_ms

if TYPE_CHECKING:
    from ottla.ports import Clock, Random
    from ottla.runtime.committer import Committer
    from ottla.runtime.metadata_snapshot import StoredSnapshot
    from ottla.runtime.quorum_store import QuorumStore
    from ottla.runtime.timers import Deadline, Timers
    from ottla.services import Deferred

log = logging.getLogger(__name__)

TRY_AGAIN_MS = 1_000
"""After the disk has refused."""
STANDSTILL_TICKS = 2
"""A timer that is later than this says that the process did not run."""
CLOCK_ERROR_MS = 2
"""A timer may be a little early, and times are in whole milliseconds."""


class StateMachine(Protocol):
    """What the log is for."""

    def on_leadership(self, leadership: Leadership) -> None:
        """Who leads has changed. Whatever was proposed before, and did not come out, may never do so."""

    def on_committed(self, entries: Sequence[Entry]) -> None:
        """In order, and without gaps; after a restart of the quorum some come a second time."""

    def on_settled(self) -> None:
        """Raft has taken note of what was applied: it can describe a snapshot of it."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """The state is now the one that this snapshot of another node holds."""

    def on_refused(self, error: BrokerError) -> None:
        """The disk has refused what was proposed, or has failed: nothing of it will come out."""


class Transport(Protocol):
    def send(self, to: int, message: Message) -> None:
        """Try to. Whatever gets lost is sent again."""


class Quorum:
    def __init__(
        self,
        *,
        node_id: int,
        directory_id: bytes,
        store: QuorumStore,
        committer: Committer,
        clock: Clock,
        timers: Timers,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        tick_ms: int,
        settings: RaftSettings | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.tick_ms = tick_ms
        self.settings = settings or RaftSettings()
        self.transport = transport
        self.machine: StateMachine | None = None
        self.refusal: BrokerError | None = None
        """Why nothing can be written now: the disk has no room, or is no more."""
        self.has_failed = False
        """For good: this node takes part in nothing until it is started again."""
        self.elections = 0
        """Leaders that this node has heard of, one after the other."""
        self.on_broken: Callable[[], None] = lambda: None
        """Called when a bug of ours has ended this node's part in the quorum."""
        self._store = store
        self._committer = committer
        self._clock = clock
        self._timers = timers
        self._loop = loop
        self._random = random
        self._node = self._new_node()
        self._under_way: Ready | None = None
        self._is_void = False
        """The disk has refused what the node asked for, and it can't be made anew yet: the log is still to be cut."""
        self._pump_is_due = False
        self._alarm: Deadline | None = None
        self._alarm_ms = 0
        self._counted_ms = 0
        """Up to when ticks were counted."""
        self._led_term = -1
        """The last one of which a leader was known."""
        self._has_started = False
        self._left: asyncio.Future[None] | None = None

    def _new_node(self) -> RaftNode:
        return RaftNode(
            node_id=self.node_id,
            stable=self._store.log,
            hard_state=self._store.hard_state(),
            random=self._random,
            settings=self.settings,
        )

    # What it is

    @property
    def leader_id(self) -> int | None:
        return self._node.leader_id

    @property
    def term(self) -> int:
        return self._node.term

    @property
    def voters(self) -> VoterSet:
        return self._node.voters

    @property
    def is_only_voter(self) -> bool:
        """There is nobody else to turn to."""
        return self._node.voters.ids == (self.node_id,)

    def status(self) -> Status:
        return self._node.status()

    @property
    def store(self) -> QuorumStore:
        return self._store

    # Life

    def start(self) -> None:
        """From here on it takes part."""
        self._has_started = True
        self._alarm_ms = self._clock.monotonic_ms()
        self._counted_ms = self._alarm_ms - self.tick_ms
        self._tick()

    def stop(self) -> None:
        """It takes part no more. What is being written is not waited for."""
        self._has_started = False
        self._silence()

    async def leave(self) -> None:
        """Hand leadership to another voter, if this node has it: returns when that is done, or has taken too long."""
        if not self._node.is_leader or self.has_failed or not self._has_started:
            return
        try:
            self._node.transfer_leadership()
        except BrokerError:
            return  # there is nobody to take it
        self._left = self._loop.create_future()
        patience = self._timers.after_ms(self.settings.election_ticks * self.tick_ms, self._has_left)
        self.pump_soon()
        await self._left
        patience.cancel()

    def _has_left(self) -> None:
        left, self._left = self._left, None
        if left is not None and not left.done():
            left.set_result(None)

    # What happens to it

    def step(self, message: Message, directory_id: bytes) -> None:
        """A message has come from a node that keeps its log in that directory."""
        if not self._takes_part or not self._node.voters.admits(message.sender, directory_id):
            return
        self._let_quiet_time_pass()
        self._guarded(lambda: self._node.step(message))
        self.pump_soon()

    def _tick(self) -> None:
        self._alarm = None
        if self._takes_part:
            self._let_quiet_time_pass()
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._counted_ms >= self.tick_ms - CLOCK_ERROR_MS:
                is_on_time = abs(now_ms - self._alarm_ms) < self.tick_ms // 2
                self._counted_ms = self._alarm_ms if is_on_time else now_ms
                self._guarded(self._node.tick)
            self.pump()

    def _let_quiet_time_pass(self) -> None:
        """A follower that hears from its leader only counts ticks: it is not woken for them, they are counted later.
        If this process stood still, that is not held against the leader: then one tick has passed."""
        now_ms, tick_ms = self._clock.monotonic_ms(), self.tick_ms
        if now_ms > self._alarm_ms + STANDSTILL_TICKS * tick_ms:
            self._counted_ms = self._alarm_ms = now_ms - tick_ms
        ticks = min((now_ms - self._counted_ms) // tick_ms, self._node.quiet_ticks)
        if ticks > 0:
            self._counted_ms += ticks * tick_ms
            self._node.skip(ticks)

    def hurry(self) -> None:
        """Somebody wants something of a quorum that waits for better times: try now."""
        if self._alarm is not None and self.refusal is not None and not self.has_failed:
            self._alarm.cancel()
            self._counted_ms -= self.tick_ms
            self._tick()

    def doubt(self, dead: Collection[int]) -> None:
        """These nodes and no others seem to be dead: if the leader is one of them, it is not waited for as long."""
        if self._node.leader_id in dead:
            self._doubt_leader(has_ended=False)
        else:
            self._node.trust_leader()

    def process_ended(self, node_id: int) -> None:
        """Nobody listens at that node's address any more: if it is the leader, it need not be waited for."""
        if self._node.leader_id == node_id:
            self._doubt_leader(has_ended=True)

    def _doubt_leader(self, *, has_ended: bool) -> None:
        if self._takes_part:
            self._let_quiet_time_pass()
            self._guarded(lambda: self._node.doubt_leader(has_ended=has_ended))
            self._arm()

    @property
    def _takes_part(self) -> bool:
        return self._has_started and not self.has_failed and not self._is_void

    # What is asked of it

    def propose(self, data: bytes, *, term: int) -> int:
        """Add an entry if this node leads in that very term; its index. BrokerError as `RaftNode.propose`."""
        self._require_term(term)
        (index,) = self._node.propose([data])
        self.pump_soon()
        return index

    def add_voter(self, voter: Voter) -> int:
        index = self._node.add_voter(voter)
        self.pump_soon()
        return index

    def remove_voter(self, node_id: int) -> int:
        index = self._node.remove_voter(node_id)
        self.pump_soon()
        return index

    def observe(self, node_ids: Sequence[int]) -> None:
        """Send the log to these too, if this node leads."""
        self._node.observe(node_ids)
        self.pump_soon()

    def set_contacts(self, node_ids: Sequence[int]) -> None:
        """Nodes that may know of the quorum."""
        self._node.set_contacts(node_ids)

    def _require_term(self, term: int) -> None:
        if not self._takes_part or self._node.term != term:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"term {term} has ended")

    # Snapshots

    def lacks(self, offer: InstallSnapshot) -> bool:
        """Whether the snapshot that is offered must be here before the offer is given to `step`."""
        return self._takes_part and self._node.lacks(offer)

    def snapshot_at(self, index: int) -> Snapshot | None:
        """None: not now. After a restart the state may be ahead of what Raft knows to be applied."""
        is_possible = self._takes_part and not self._store.is_being_cut and index <= self._node.applied
        return self._node.snapshot_at(index) if is_possible else None

    def took_snapshot(self, stored: StoredSnapshot) -> None:
        """A snapshot of the state of this node is on disk: the log may forget what it held before the last one."""
        if self._takes_part and not self._store.is_being_cut:
            if self._store.took(stored, now_ms=self._clock.now_ms()):
                self._guarded(self._node.compacted)
            self._committer.commit_soon()

    # Doing what must be done

    def pump_soon(self) -> None:
        """At the end of this turn of the loop: what comes together is written together."""
        if not self._pump_is_due:
            self._pump_is_due = True
            self._loop.call_soon(self.pump)

    def pump(self) -> None:
        self._pump_is_due = False
        if self._takes_part:
            self._guarded(self._pump)
            self._arm()

    def _pump(self) -> None:
        self._send(self._node.early_messages())
        while self._under_way is None and (ready := self._node.ready()) is not None:
            self._under_way = ready
            if ready.leadership is not None:
                self._tell_leadership(ready.leadership)
            if ready.hard_state is not None or ready.snapshot is not None or ready.entries:
                self._write(ready)
            else:
                self._finish(ready)

    def _tell_leadership(self, leadership: Leadership) -> None:
        if leadership.leader_id is not None and leadership.term != self._led_term:
            self._led_term = leadership.term
            self.elections += 1
        if self.machine is not None:
            self.machine.on_leadership(leadership)
        if self._left is not None and leadership.leader_id not in (None, self.node_id):
            self._has_left()

    def _arm(self) -> None:
        """The next tick, unless this node is alone: then nothing happens by time."""
        if not self._takes_part or self._node.is_alone:
            return
        due_ms = self._counted_ms + (1 + self._node.quiet_ticks) * self.tick_ms
        if self._node.is_leader:
            due_ms = towards_beat_ms(due_ms, self.settings.heartbeat_ticks * self.tick_ms)
        if self._alarm is not None:
            if self.refusal is not None or due_ms >= self._alarm_ms:
                return
            self._alarm.cancel()
        self._alarm_ms = due_ms
        self._alarm = self._timers.after_ms(max(0, due_ms - self._clock.monotonic_ms()), self._tick)

    def _send(self, messages: Sequence[Outgoing]) -> None:
        if self.transport is not None:
            for each in messages:
                self.transport.send(each.to, each.message)

    def _finish(self, ready: Ready) -> None:
        """It is on disk: now it may be said, and applied."""
        self._send(ready.messages)
        if ready.committed and self.machine is not None:
            self.machine.on_committed(ready.committed)
        self._under_way = None
        self._node.advance(ready)
        if ready.committed and self.machine is not None:
            self.machine.on_settled()

    # Writing: hard state, snapshot and entries of a Ready are one commit, or two where the log must be cut first.

    def _write(self, ready: Ready) -> None:
        if ready.hard_state is not None:
            self._store.write_hard_state(ready.hard_state)
        if ready.snapshot is not None:
            self._store.install(ready.snapshot, then=lambda: self._append(ready))
        elif ready.entries and ready.entries[0].index <= self._store.log.last_index:
            self._store.cut(ready.entries[0].index, then=lambda: self._append(ready))
        else:
            self._append(ready)
            return
        self._commit_cut()

    def _commit_cut(self) -> None:
        self._committer.commit_soon()
        self._committer.after_commit(None).on_done(self._was_cut)

    def _cut_again(self) -> None:
        self._alarm = None
        self._commit_cut()

    def _was_cut(self, done: Deferred[None]) -> None:
        """What follows, follows from `then`. But if the disk refuses, the cut is still to come: it has to be done
        before the log can be used again."""
        if done.error is not None:
            self._refused(done.error)

    def _append(self, ready: Ready) -> None:
        if self._under_way is not ready:
            self._restart()  # the commit with the cut had failed, and now it has come through
            return
        if ready.snapshot is not None and self.machine is not None:
            self.machine.on_snapshot(ready.snapshot)
        refusal: BrokerError | None = None
        try:
            self._store.append(ready.entries, now_ms=self._clock.now_ms())
        except BrokerError as error:
            refusal = error
        self._committer.commit_soon()
        self._committer.after_commit(ready).on_done(lambda done: self._written(ready, done.error or refusal))

    def _written(self, ready: Ready, error: BrokerError | None) -> None:
        if not self._takes_part:
            return
        if error is not None:
            self._refused(error)
            return
        self.refusal = None
        self._guarded(lambda: self._finish(ready))
        self.pump()

    # When the disk says no

    def _refused(self, error: BrokerError) -> None:
        """Nothing of the Ready may be said or applied. What Raft is now is on the disk, and nowhere else."""
        self._under_way = None
        self.refusal = error
        self.has_failed = self._committer.failed is not None
        self._silence()
        if self.machine is not None:
            self.machine.on_refused(error)
        if self.has_failed:
            log.error("this node takes no part in the metadata quorum any more: %s", error)
        elif self._store.is_being_cut:
            self._is_void = True
            self._alarm = self._timers.after_ms(TRY_AGAIN_MS, self._cut_again)
        else:
            self._restart()

    def _restart(self) -> None:
        self._silence()
        self._under_way = None
        self._is_void = False
        self._guarded(self._store.reopen)
        if self.has_failed:
            return
        self._node = self._new_node()
        if self.machine is not None:
            self.machine.on_leadership(self._node.leadership)
        if self._takes_part:
            self._alarm = self._timers.after_ms(TRY_AGAIN_MS, self._tick)

    def _silence(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _guarded(self, action: Callable[[], object]) -> None:
        """A bug of ours ends this node's part in the quorum, loudly: the others must not be led astray by it."""
        try:
            action()
        except Exception as error:
            self.has_failed = True
            self.refusal = BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            self._silence()
            log.critical("this node takes no part in the metadata quorum any more: %s", error, exc_info=error)
            if self.machine is not None:
                self.machine.on_refused(self.refusal)
            self.on_broken()
