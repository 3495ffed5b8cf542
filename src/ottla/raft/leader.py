"""The leader: it alone adds to the log, and says what is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from ottla.errors import BrokerError, ErrorCode, broken, invariant
from ottla.raft.core import Core, Next
from ottla.raft.entry import Entry, EntryKind
from ottla.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Attach,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    Message,
    ReadReply,
    ReadRequest,
    TimeoutNow,
)
from ottla.raft.progress import Pace, Progress
from ottla.raft.reads import PendingReads, Reader
from ottla.raft.ready import ReadResult
from ottla.raft.replication import Replication
from ottla.raft.transfer import Transfer
from ottla.raft.voters import Voter, VoterSet


class Leader:
    __slots__ = ("_backlog", "_backlog_bytes", "_core", "_reads", "_ticks", "_transfer", "replication")

    def __init__(self, core: Core) -> None:
        self._core = core
        self.replication = Replication(core)
        self._reads = PendingReads()
        self._transfer: Transfer | None = None
        self._ticks = 0
        self._backlog: deque[tuple[int, int]] = deque()
        """The last index and the size of each proposal that is not committed."""
        self._backlog_bytes = 0

    def begin(self) -> Next | None:
        """An entry of this term must be committed before anything is known to be (5.4.2, 8): here it is.

        In a new cluster it names the voters, who were only told to the founders: whoever reads the log knows them.
        """
        core, log = self._core, self._core.log
        core.follow(core.node_id)
        kind, data = (EntryKind.NOOP, b"") if log.names_voters else (EntryKind.VOTERS, log.voters.encode())
        log.append([Entry(index=log.last_index + 1, term=core.term, kind=kind, data=data)])
        return None

    def end(self) -> None:
        self._core.leader_id = None
        for reader in self._reads.abandon():
            if reader.node_id == self._core.node_id:
                self._core.read_results.append(ReadResult(read_id=reader.read_id, index=None))

    @property
    def is_alone(self) -> bool:
        return not self.replication.voters and not self.replication.observers and self._core.is_voter

    # Proposals

    def propose(self, data: Sequence[bytes]) -> range:
        invariant(data, "a proposal of nothing")
        self._refuse_while_transferring()
        entries = self._entries(data)
        size_bytes = sum(entry.size_bytes for entry in entries)
        if self._backlog and self._backlog_bytes + size_bytes > self._core.settings.uncommitted_bytes_max:
            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too much waits for a majority of the voters")
        self._core.log.append(entries)
        self._backlog.append((entries[-1].index, size_bytes))
        self._backlog_bytes += size_bytes
        return range(entries[0].index, entries[-1].index + 1)

    def _entries(self, data: Sequence[bytes]) -> Sequence[Entry]:
        first, term = self._core.log.last_index + 1, self._core.term
        return [Entry(index=index, term=term, data=each) for index, each in enumerate(data, first)]

    def _refuse_while_transferring(self) -> None:
        if self._transfer is not None:
            message = f"leadership is being handed to node {self._transfer.target}"
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)

    # Voters

    def add_voter(self, voter: Voter) -> int:
        voters = self._core.log.voters.with_voter(voter)
        if voter.node_id not in self._core.log.voters:
            self._require_caught_up(voter.node_id)
        return self._change_voters(voters)

    def remove_voter(self, node_id: int) -> int:
        return self._change_voters(self._core.log.voters.without_voter(node_id))

    def _require_caught_up(self, node_id: int) -> None:
        """A voter that has most of the log yet to get could be needed for a majority at once (dissertation, 4.2.1)."""
        progress = self.replication.observers.get(node_id)
        since_ticks = None if progress is None else progress.ticks_since_caught_up
        if since_ticks is None or since_ticks >= self._core.settings.election_ticks:
            raise BrokerError(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"node {node_id} does not have the log up to its end yet"
            )

    def _change_voters(self, voters: VoterSet) -> int:
        """One change at a time, so that the majorities before and after it share a voter.

        And none before an entry of this term is committed: an older leader's change could still be under way.
        """
        self._refuse_while_transferring()
        log = self._core.log
        if log.has_voters_pending or not self._has_committed_in_term:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, "an earlier change of the voters may not be committed yet")
        index = log.last_index + 1
        log.append([Entry(index=index, term=self._core.term, kind=EntryKind.VOTERS, data=voters.encode())])
        self.replication.follow_voter_set()
        return index

    @property
    def _has_committed_in_term(self) -> bool:
        log = self._core.log
        return log.term(log.commit) == self._core.term

    # Handing over, observers, reads

    def transfer(self, target: int | None) -> None:
        chosen = self.replication.most_advanced() if target is None else target
        progress = None if chosen is None else self.replication.voters.get(chosen)
        if chosen is None or progress is None:
            raise BrokerError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "there is no such other voter")
        if self._transfer is None or self._transfer.target != chosen:
            self._transfer = Transfer(self._core, chosen, progress)

    def observe(self, node_ids: Collection[int]) -> None:
        self.replication.observe(node_ids)

    def snapshot_failed(self, node_id: int) -> None:
        progress = self.replication.find(node_id)
        if progress is not None and progress.pace is Pace.SNAPSHOT:
            progress.probe()  # with the next tick, so that a snapshot that always fails is not offered without a pause

    def read(self, reader: Reader) -> bool:
        """Whether there is room for one more."""
        if len(self._reads) >= self._core.settings.pending_reads_max:
            return False
        self._reads.add(reader)
        return True

    def _serve_reads(self) -> None:
        confirmed = self.replication.agreed(self._reads.round, lambda progress: progress.round_acked)
        for reader, index in self._reads.confirmed(confirmed):
            if reader.node_id == self._core.node_id:
                self._core.read_results.append(ReadResult(read_id=reader.read_id, index=index))
            else:
                core = self._core
                reply = ReadReply(sender=core.node_id, term=core.term, read_id=reader.read_id, index=index)
                core.send(reader.node_id, reply)

    # Messages

    def step(self, message: Message) -> Next | None:
        match message:
            case Attach():
                self.replication.attach(message.sender)
                return None
            case ReadRequest():
                self.read(Reader(message.sender, message.read_id))
                return None
            case Append() | Heartbeat() | InstallSnapshot() | TimeoutNow():
                broken(f"node {message.sender} also leads term {message.term}")
        progress = self.replication.heard(message.sender)
        return None if progress is None else self._hear(progress, message)

    def _hear(self, progress: Progress, message: Message) -> Next | None:
        match message:
            case AppendReply():
                self.replication.acknowledged(progress, message)
                return self._advance_commit()
            case AppendRejected():
                self.replication.rejected(progress, message)
            case HeartbeatReply():
                progress.replied_to_heartbeat(message.round)
                self._serve_reads()
        return None

    # Committing

    def written(self) -> Next | None:
        return self._advance_commit()

    def _advance_commit(self) -> Next | None:
        """An entry of this term that a majority has on disk is committed, and with it all before it.

        One of an older term is not, however many have it: a later leader could still replace it (5.4.2, figure 8).
        """
        log = self._core.log
        index = self.replication.agreed(log.stable_index, lambda progress: progress.match)
        if index <= log.commit or log.term(index) != self._core.term:
            return None
        log.commit_to(index)
        while self._backlog and self._backlog[0][0] <= index:
            self._backlog_bytes -= self._backlog.popleft()[1]
        return self._leave_if_removed()

    def _leave_if_removed(self) -> Next | None:
        """A leader that is no voter leads until that is committed (dissertation, 4.2.2), and names a successor."""
        core = self._core
        if core.is_voter or core.log.has_voters_pending:
            return None
        successor = self.replication.most_advanced()
        if successor is not None:
            core.send(successor, TimeoutNow(sender=core.node_id, term=core.term))
        return Next.FOLLOWER

    # Time

    @property
    def quiet_ticks(self) -> int:
        """Up to the next heartbeat."""
        interval = self._core.settings.heartbeat_ticks
        return interval - 1 - self._ticks % interval

    def tick(self) -> Next | None:
        core = self._core
        self._ticks += 1
        core.ticks_of_silence += 1
        self.replication.tick()
        if self._transfer is not None and not self._transfer.tick():
            self._transfer = None
        if core.ticks_of_silence >= core.settings.election_ticks:
            core.ticks_of_silence = 0
            if not self.replication.count_active():
                return Next.FOLLOWER
        if self._ticks % core.settings.heartbeat_ticks == 0:
            self.replication.heartbeat(
                self._reads.round,
                to_observers=self._ticks % core.settings.election_ticks < core.settings.heartbeat_ticks,
            )
        return None

    def flush(self) -> None:
        if self._has_committed_in_term and self._reads.begin_round(self._core.log.commit):
            self.replication.heartbeat(self._reads.round, to_observers=False)
            self._serve_reads()
        self.replication.flush()
        if self._transfer is not None:
            self._transfer.advance()
