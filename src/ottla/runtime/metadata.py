"""The metadata of a node: the image that the quorum has agreed on, and, on the quorum's leader, the controller.

Every node applies what is committed and shows it as `image`. On the leader the controller is ahead of that: it replays
its own records as soon as they are proposed, so that its next decision builds on them, and what it has made of them is
kept with the proposal. When that comes out of the quorum it becomes the image, and those who asked are answered.

A leader may decide once an entry of its own term is committed: then it knows everything that was committed before it.
When it leads no more, the controller is thrown away with whatever was not committed, and callers are told to look for
the new one. On a node that is the only voter they wait instead: there is nobody else to turn to.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.controller import Controller
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.metadata.state import Changes, MetadataState
from ottla.protocol.records import read_records
from ottla.raft.entry import Entry, EntryKind, Snapshot
from ottla.raft.ready import Leadership, RoleName
from ottla.raft.voters import Voter
from ottla.replicated import Reply, Result, Token
from ottla.runtime.metadata_changes import changes_between
from ottla.runtime.metadata_recovery import LocalTopics
from ottla.runtime.metadata_snapshot import read_state
from ottla.runtime.quorum_entries import data_batch
from ottla.services import Deferred
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.ports import Clock, Disk
    from ottla.runtime.quorum import Quorum
    from ottla.runtime.quorum_snapshots import SnapshotTaker
    from ottla.runtime.timers import Deadline, Timers
    from ottla.types import TopicId

log = logging.getLogger(__name__)

T = TypeVar("T")
Decide = Callable[[Controller, Token, int], "Result[Any, T]"]
NewController = Callable[[MetadataImage, Callable[[], int]], Controller]
"""Given the committed image, and what tells the offset that the next record will get."""

NOBODY = -1
LOAD_BYTES = 1 << 20
RECORD_BYTES_MAX = 64 << 20
WAITING_MAX = 10_000
"""Callers who wait for the only voter to be ready."""


class Proposal:
    """Records that the controller has decided on, and what follows when they are committed."""

    __slots__ = ("changes", "image", "index", "replies")

    def __init__(self, index: int, changes: Changes, image: MetadataImage) -> None:
        self.index = index
        self.changes = changes
        self.image = image
        self.replies: list[Reply] = []


class Metadata:
    def __init__(
        self, *, quorum: Quorum, disk: Disk, new_controller: NewController, clock: Clock, timers: Timers
    ) -> None:
        self.quorum = quorum
        self.controller_id = NOBODY
        self._disk = disk
        self._new_controller = new_controller
        self._clock = clock
        self._timers = timers
        self._began_ms = clock.now_ms()
        self._began_monotonic_ms = clock.monotonic_ms()
        self._listeners: list[Callable[[Changes], None]] = []
        self._activity_listeners: list[Callable[[bool], None]] = []
        self._state: MetadataState | None = MetadataState()
        """What has been applied; None while the image is ahead of it, made by this node's own controller."""
        self.image: MetadataImage = self._state.image
        self._applied = 0
        self._leading_term: int | None = None
        self._controller: Controller | None = None
        self._controller_term = 0
        self._next_offset = 0
        self._proposals: deque[Proposal] = deque()
        self._waiting: list[tuple[Decide[Any], Deferred[Any]]] = []
        self._watchers: dict[int, tuple[int, Deferred[None]]] = {}
        """Who waits for the entry of which index and term to be committed."""
        self._alarm: Deadline | None = None
        self._alarm_ms: int | None = None
        self._local_topics: LocalTopics | None = None
        self.snapshots: SnapshotTaker | None = None
        quorum.machine = self

    @property
    def is_active(self) -> bool:
        """This node is the controller, and may decide."""
        return self._controller is not None

    @property
    def applied_offset(self) -> int:
        """The last offset of the metadata log that the image holds; -1 if it holds none."""
        return self.quorum.store.log.end_offset(self._applied) - 1

    @property
    def next_offset(self) -> int:
        """On the active controller: the offset that the next record will get."""
        return self._next_offset

    def listen(self, listener: Callable[[Changes], None]) -> None:
        """Call `listener` with every change of the image from now on."""
        self._listeners.append(listener)

    def on_active(self, listener: Callable[[bool], None]) -> None:
        """Call `listener` when this node has become the active controller, and when it no longer is."""
        self._activity_listeners.append(listener)

    # Loading

    def load(self) -> None:
        """What is known to be committed: the newest snapshot, and if there is no other voter, the whole log."""
        self._load_snapshot()
        if self.quorum.is_only_voter:
            self._load_log()
        state = self._applied_state()
        state.take_changes()
        self.image = state.image

    def _load_snapshot(self) -> None:
        newest = self.quorum.store.newest
        state = self._state = MetadataState()
        if newest.snapshot.last.index:
            for record in read_state(self._disk, newest.snapshot_id):
                state.replay(record)
        self._applied = newest.snapshot.last.index

    def _load_log(self) -> None:
        stored, state = self.quorum.store.log, self._applied_state()
        while self._applied < stored.last_index:
            for entry in stored.read(self._applied + 1, stored.last_index, LOAD_BYTES):
                _replay(state, entry)
                self._applied = entry.index

    def find_partition(self, topic_id: TopicId, index: int) -> TopicPartition | None:
        """The partition that a log on this node's disk is of, before the node has heard from the quorum."""
        if not self.quorum.is_only_voter:
            if self._local_topics is None:
                self._local_topics = LocalTopics(self._disk, self.quorum.store.log, self.image)
            return self._local_topics.find(topic_id, index)
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None or index not in topic.partitions else TopicPartition(topic.name, index)

    def _applied_state(self) -> MetadataState:
        if self._state is None:
            self._state = MetadataState(self.image)
        return self._state

    # What is asked of the controller

    def call(self, decide: Decide[T]) -> Deferred[T]:
        """Let the controller decide; its answer comes once what it is based on is committed and shown.

        Raises BrokerError: NOT_CONTROLLER if another node is, or none.
        """
        caller: Deferred[T] = Deferred()
        if self._controller is None:
            self._wait(decide, caller)
        else:
            now_ms = self._now_ms()
            self._carry_out(decide(self._controller, caller, now_ms), caller, now_ms)
        return caller

    def _wait(self, decide: Decide[T], caller: Deferred[T]) -> None:
        quorum = self.quorum
        if quorum.has_failed and quorum.refusal is not None:
            raise quorum.refusal
        if not quorum.is_only_voter or len(self._waiting) >= WAITING_MAX:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        self._waiting.append((decide, caller))
        quorum.hurry()

    def _now_ms(self) -> int:
        """The calendar's time when this began, and what has passed since: a clock that is set ends no session."""
        return self._began_ms + self._clock.monotonic_ms() - self._began_monotonic_ms

    def _carry_out(self, result: Result[MetadataRecord, Any], caller: Deferred[Any] | None, now_ms: int) -> None:
        replies = list(result.replies)
        if caller is not None and result.response is not None:
            replies.append(Reply(token=caller, response=result.response))
        try:
            if result.records:
                self._propose(result.records, now_ms)
        except BrokerError as error:
            _refuse(replies, _as_told(error))
        else:
            self._answer(replies)
        self._set_alarm()

    def _propose(self, records: Sequence[MetadataRecord], now_ms: int) -> None:
        """If this raises, nothing has changed."""
        controller = self._controller
        assert controller is not None
        term = self._controller_term
        pairs = [encode_record(record) for record in records]
        batch = data_batch(pairs, base_offset=self._next_offset, term=term, now_ms=now_ms)
        index = self.quorum.propose(batch, term=term)
        self._next_offset += len(records)
        for record in records:
            controller.replay(record)
        self._proposals.append(Proposal(index, controller.take_changes(), controller.image))

    def _answer(self, replies: Sequence[Reply]) -> None:
        """At once if all that the controller knows is committed, otherwise when it is."""
        if self._proposals:
            self._proposals[-1].replies += replies
        else:
            _send(replies)

    # Time

    def _set_alarm(self) -> None:
        deadline_ms = None if self._controller is None else self._controller.next_deadline_ms()
        if deadline_ms == self._alarm_ms:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_ms = deadline_ms
        if deadline_ms is not None:
            self._alarm = self._timers.after_ms(max(0, deadline_ms - self._now_ms()), self._tick)

    def _tick(self) -> None:
        self._alarm = None
        self._alarm_ms = None
        if self._controller is not None:
            now_ms = self._now_ms()
            self._carry_out(self._controller.tick(now_ms), None, now_ms)

    # What the quorum says

    def on_leadership(self, leadership: Leadership) -> None:
        self.controller_id = NOBODY if leadership.leader_id is None else leadership.leader_id
        leads = leadership.role is RoleName.LEADER
        if self._controller is not None and not (leads and leadership.term == self._controller_term):
            self._resign(BrokerError(ErrorCode.NOT_CONTROLLER))
        self._leading_term = leadership.term if leads else None

    def on_committed(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.index > self._applied:
                self._applied = entry.index
                self._apply(entry)
                if entry.index in self._watchers:
                    self._tell_watcher(entry)
        self._show()
        if self._controller is None and self._leading_term == entries[-1].term:
            self._activate()

    def on_settled(self) -> None:
        if self.snapshots is not None:
            self.snapshots.look(self.image, self._applied)

    def _apply(self, entry: Entry) -> None:
        if self._proposals and self._proposals[0].index == entry.index:
            proposal = self._proposals.popleft()
            self._state = None
            self._publish(proposal.changes, proposal.image)
            _send(proposal.replies)
        elif entry.kind is EntryKind.DATA:
            _replay(self._applied_state(), entry)

    def _show(self) -> None:
        """What was applied to the state since, if anything was."""
        if self._state is not None:
            changes = self._state.take_changes()
            if self._state.image is not self.image:
                self._publish(changes, self._state.image)

    def _publish(self, changes: Changes, image: MetadataImage) -> None:
        self.image = image
        for listener in self._listeners:
            listener(changes)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """The listeners are told what has become different, as if it had come bit by bit."""
        self._load_snapshot()
        image = self._applied_state().image
        self._applied_state().take_changes()
        self._publish(changes_between(self.image, image), image)
        self._dismiss_watchers(BrokerError(ErrorCode.NOT_CONTROLLER))

    def on_refused(self, error: BrokerError) -> None:
        self._resign(error)
        self._dismiss_watchers(error)
        waiting, self._waiting = self._waiting, []
        for _, caller in waiting:
            caller.fail(error)

    # Becoming the controller, and ceasing to be it

    def _activate(self) -> None:
        """An entry of this term is committed, so all that earlier leaders have committed is in the image."""
        assert self._leading_term is not None
        self._controller_term = self._leading_term
        self._next_offset = self.quorum.store.log.end_offset(self._applied)
        controller = self._controller = self._new_controller(self.image, lambda: self._next_offset)
        self._began_ms, self._began_monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        controller.activate(self._now_ms())
        log.info("node %d is the active controller of term %d", self.quorum.node_id, self._controller_term)
        self._set_alarm()
        for listener in self._activity_listeners:
            listener(True)
        waiting, self._waiting = self._waiting, []
        for decide, caller in waiting:
            self._decide_late(decide, caller)

    def _decide_late(self, decide: Decide[Any], caller: Deferred[Any]) -> None:
        if self._controller is None:
            caller.fail(BrokerError(ErrorCode.NOT_CONTROLLER))
            return
        now_ms = self._now_ms()
        try:
            result = decide(self._controller, caller, now_ms)
        except BrokerError as error:
            caller.fail(error)
        else:
            self._carry_out(result, caller, now_ms)

    def _resign(self, error: BrokerError) -> None:
        """What was not committed may still be, or never: whoever asked must look for themselves."""
        was_active, self._controller = self._controller is not None, None
        self._set_alarm()
        proposals, self._proposals = self._proposals, deque()
        for proposal in proposals:
            _refuse(proposal.replies, error)
        if was_active:
            log.info("node %d is no longer the active controller", self.quorum.node_id)
            for listener in self._activity_listeners:
                listener(False)

    def when_applied(self, index: int) -> Deferred[None]:
        """Done when an entry that this controller has just proposed is committed; NOT_CONTROLLER if it never will be.

        It outlives the controller: a leader that removes itself from the voters leads no more when that is committed.
        """
        applied: Deferred[None] = Deferred()
        self._watchers[index] = self._controller_term, applied
        return applied

    def _dismiss_watchers(self, error: BrokerError) -> None:
        watchers, self._watchers = self._watchers, {}
        for _, applied in watchers.values():
            applied.fail(error)

    def _tell_watcher(self, entry: Entry) -> None:
        term, applied = self._watchers.pop(entry.index)
        if entry.term == term:
            applied.complete(None)
        else:
            applied.fail(BrokerError(ErrorCode.NOT_CONTROLLER))

    # Voters

    def add_voter(self, voter: Voter) -> int:
        """The index of the change. BrokerError as `RaftNode.add_voter`, and NOT_CONTROLLER."""
        return self._change_voters(lambda: self.quorum.add_voter(voter))

    def remove_voter(self, node_id: int) -> int:
        return self._change_voters(lambda: self.quorum.remove_voter(node_id))

    def _change_voters(self, change: Callable[[], int]) -> int:
        """A change of the voters stands in the log, and so takes an offset."""
        if self._controller is None or self.quorum.term != self._controller_term:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        index = change()
        self._next_offset += 1
        return index

    def close(self) -> None:
        """No timer fires any more."""
        if self._alarm is not None:
            self._alarm.cancel()


def _replay(state: MetadataState, entry: Entry) -> None:
    if entry.kind is EntryKind.DATA:
        for record in read_records(entry.data, max_uncompressed_bytes=RECORD_BYTES_MAX):
            state.replay(decode_record(record.key, record.value))


def _as_told(error: BrokerError) -> BrokerError:
    """Raft's words for what clients know by another name."""
    is_elsewhere = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    return BrokerError(ErrorCode.NOT_CONTROLLER, str(error)) if is_elsewhere else error


def _send(replies: Sequence[Reply]) -> None:
    for reply in replies:
        reply.token.complete(reply.response)  # type: ignore[attr-defined]  # tokens are the Deferreds that call() made


def _refuse(replies: Sequence[Reply], error: BrokerError) -> None:
    for reply in replies:
        reply.token.fail(error)  # type: ignore[attr-defined]  # tokens are the Deferreds that call() made
