"""How a leader brings the other nodes' logs in line with its own (paper, 5.3), and learns what a majority has.

Whatever happens, it is only noted here; once a turn `flush` sends each node what it may be sent. So proposals that come
together travel together, and a node whose window is full gets more as soon as it acknowledges some.

Voters are sent everything. Observers are sent what is committed, once it is: one message for what takes voters two, and
never anything that could be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain

from ottla.errors import invariant
from ottla.raft.core import Core
from ottla.raft.entry import EntryId
from ottla.raft.messages import Append, AppendRejected, AppendReply, Heartbeat, InstallSnapshot
from ottla.raft.progress import Pace, Progress
from ottla.raft.quorum import agreed, majority

OBSERVER_SILENCE = 4
"""Election time-outs after which an observer that says nothing is forgotten."""


class Replication:
    __slots__ = ("_core", "_due", "_flushed", "observers", "voters")

    def __init__(self, core: Core) -> None:
        self._core = core
        self.voters: dict[int, Progress] = {}
        """The other voters: not the leader itself."""
        self.observers: dict[int, Progress] = {}
        self._due: set[int] = set()
        """Whom something has happened to since the last flush: a hundred acknowledgements must not each look at a
        hundred nodes."""
        self._flushed: tuple[int, int] | None = None
        """The end of the log and of what is committed, as everybody has been told, or will be when there is room."""
        self.follow_voter_set()

    def follow_voter_set(self) -> None:
        """The set in the log has changed. Who was a voter goes on as an observer, and so learns that it is none."""
        wanted = set(self._core.log.voters.ids) - {self._core.node_id}
        for node_id in sorted(set(self.voters) - wanted):
            self.observers[node_id] = self.voters.pop(node_id)
        for node_id in sorted(wanted - set(self.voters)):
            # What it acknowledged as an observer may be of an earlier life of it; that it was heard is still true.
            self.voters[node_id] = self._unknown(self._core.log.last_index)
            self.voters[node_id].is_active = self.observers.pop(node_id, None) is not None
            self._due.add(node_id)

    def _unknown(self, last_index: int) -> Progress:
        """A node that has been told nothing yet is first asked whether it has everything."""
        return Progress(self._core.settings, next_index=last_index + 1)

    def find(self, node_id: int) -> Progress | None:
        return self.voters.get(node_id) or self.observers.get(node_id)

    def __iter__(self) -> Iterator[tuple[int, Progress]]:
        return chain(self.voters.items(), self.observers.items())

    # Observers

    def observe(self, node_ids: Collection[int]) -> None:
        """Send the log to these nodes too, from wherever they are."""
        room = max(0, self._core.settings.observers_max - len(self.observers))
        unknown = [node_id for node_id in node_ids if self.find(node_id) is None and node_id != self._core.node_id]
        for node_id in unknown[:room]:
            self.observers[node_id] = self._unknown(self._core.log.commit)
            self._due.add(node_id)

    def attach(self, node_id: int) -> None:
        """The node asks for the log. What was known of an observer may be of an earlier life of it.

        A voter asks when it hears nothing. That it is heard itself does not make it one of a majority that is reached.
        """
        self._due.add(node_id)
        if node_id in self.voters:
            self.voters[node_id].must_ask = True
            return
        if node_id in self.observers:
            self.observers[node_id].forget(self._core.log.commit + 1)
        self.observe([node_id])
        if node_id in self.observers:
            self.observers[node_id].heard()

    # Hearing

    def heard(self, node_id: int) -> Progress | None:
        """What is known of the node that has just said something; None: it is nobody that the log is sent to."""
        progress = self.find(node_id)
        if progress is not None:
            progress.heard()
            self._due.add(node_id)
        return progress

    def acknowledged(self, progress: Progress, reply: AppendReply) -> None:
        log = self._core.log
        invariant(reply.match_index <= log.last_index, f"{reply.sender} has {reply.match_index} entries: {log!r}")
        progress.acknowledged(reply.match_index, base_index=log.base.index)

    def rejected(self, progress: Progress, rejected: AppendRejected) -> None:
        agreeable = self._core.log.last_agreeable(rejected.hint).index
        if rejected.sender in self.observers and rejected.rejected_index <= progress.match:
            progress.forget(agreeable + 1)  # it had this entry once, and may have lost it: an observer may begin anew
        else:
            progress.rejected(rejected.rejected_index, agreeable)

    # What a majority has

    def agreed(self, own: int, of: Callable[[Progress], int]) -> int:
        """The highest value that a majority of the voters has reached. The leader counts only if it is a voter."""
        values = [of(progress) for progress in self.voters.values()]
        return agreed([*values, own] if self._core.is_voter else values)

    def count_active(self) -> bool:
        """Whether a majority was heard from since this was last asked."""
        active = sum(progress.is_active for progress in self.voters.values()) + self._core.is_voter
        for _, progress in self:
            progress.is_active = False
        return active >= majority(len(self._core.log.voters))

    def most_advanced(self) -> int | None:
        """The voter that could take over soonest."""
        heard = {node_id: each.match for node_id, each in self.voters.items()}
        return max(heard, key=lambda node_id: (heard[node_id], -node_id), default=None)

    # Sending

    def heartbeat(self, round_number: int, *, to_observers: bool) -> None:
        for node_id, progress in self.voters.items():
            self._send_heartbeat(node_id, progress, round_number, progress.match)
        for node_id, progress in self.observers.items() if to_observers else ():
            self._send_heartbeat(node_id, progress, round_number, match_index=0)

    def _send_heartbeat(self, node_id: int, progress: Progress, round_number: int, match_index: int) -> None:
        core, log = self._core, self._core.log
        heartbeat = Heartbeat(
            sender=core.node_id,
            term=core.term,
            commit=EntryId(log.commit, log.term(log.commit)),
            match_index=match_index,
            round=round_number,
        )
        core.send(node_id, heartbeat)
        progress.sent_heartbeat()

    def flush(self) -> None:
        """Send everybody what there is for them, and room."""
        log = self._core.log
        ends = (log.last_index, log.commit)
        due, self._due = self._due, set()
        is_news = ends != self._flushed
        self._flushed = ends
        for node_id, progress in self.voters.items():
            if is_news or node_id in due:
                self._feed(node_id, progress, log.last_index)
        for node_id in self.observers if is_news else sorted(due & self.observers.keys()):
            self._feed(node_id, self.observers[node_id], log.commit)

    def _feed(self, node_id: int, progress: Progress, upto_index: int) -> None:
        while progress.pace is not Pace.SNAPSHOT:
            if progress.next <= self._core.log.base.index:
                self._offer_snapshot(node_id, progress)
                return
            if not self._send_append(node_id, progress, upto_index):
                return

    def _send_append(self, node_id: int, progress: Progress, upto_index: int) -> bool:
        """Send one message if there is a reason to."""
        core, log = self._core, self._core.log
        upto_index = upto_index if progress.may_send_entries else 0
        entries = log.read(progress.next, upto_index, core.settings.message_bytes_max)
        previous = progress.next - 1
        has_news = progress.pace is Pace.REPLICATE and progress.commit_sent < min(log.commit, previous)
        if not (entries or progress.must_ask or has_news):
            return False
        message = Append(
            sender=core.node_id,
            term=core.term,
            previous=EntryId(previous, log.term(previous)),
            commit=log.commit,
            entries=entries,
        )
        core.send(node_id, message)
        size_bytes = sum(entry.size_bytes for entry in entries)
        progress.sent(previous + len(entries), size_bytes, log.commit)
        return True

    def _offer_snapshot(self, node_id: int, progress: Progress) -> None:
        """Only to a node that is there: a snapshot is much to send to nobody."""
        if progress.is_active:
            core = self._core
            message = InstallSnapshot(sender=core.node_id, term=core.term, snapshot=core.log.snapshot)
            core.send(node_id, message)
            progress.sent_snapshot()

    # Time

    def tick(self) -> None:
        log, patience_ticks = self._core.log, OBSERVER_SILENCE * self._core.settings.election_ticks
        for node_id, progress in self:
            progress.tick(log.commit)
            if progress.must_ask:
                self._due.add(node_id)
        silent = [node_id for node_id, each in self.observers.items() if each.ticks_since_heard > patience_ticks]
        for node_id in silent:
            del self.observers[node_id]
