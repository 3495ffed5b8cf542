"""When commits happen, and who is answered by them.

Appends of one turn of the event loop share a commit, and while a commit runs in a thread everything that arrives
gathers for the next: one fsync for many. Where the disk is quick the loop itself does the commit, which saves two
thread switches per commit and is up to twice as fast; where it has been slow lately a thread does, so that one slow
sync does not stop the node.

A client that keeps a few requests in flight sends them one by one. The commit of the first would keep the loop from
the others, and each would have a sync of its own; so a commit waits a few turns for as many as shared one lately. A
commit that answers a few clients is followed by some turns in which the loop does not sleep.

What clients wait for comes first. Answers that are ready as bytes leave before anything else is done about a commit
that has succeeded: clients are at work on what they send next while this node notes what is durable. Whoever has read
an answer finds what it tells of, since nothing that is sent then is looked at before. Only a reader who waits for what
a lone writer has sent comes before that writer. What logs hold (`storage.held`) is written while a commit waits for
others, or while nobody does.

All that looking takes processor time from those who are looked out for, if they have no other processor to run on. So
where that is so (`crowding`), the loop sleeps for a moment instead.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeAlias

from ottla.errors import BrokerError, DiskFailedError, ErrorCode
from ottla.observability.metrics import Histogram
from ottla.ports import Bytes
from ottla.replication.partition import Partition
from ottla.replication.readable import Readable
from ottla.replication.replica import Replica
from ottla.runtime.commit_timing import Gathering, Lookout, SyncPace
from ottla.runtime.crowding import Crowding
from ottla.runtime.outbox import Outbox
from ottla.services import Deferred, Receiver
from ottla.storage.group_commit import Commit, GroupCommit
from ottla.storage.journal_format import Kind
from ottla.storage.log import Log, Origin
from ottla.storage.pending import PendingWrite

log = logging.getLogger(__name__)

FAILURE_LINES_S = 5.0
"""Between two lines of the log about commits that fail."""
NAP_S = 0.00015
"""Instead of waiting for others in turns of the loop, where the processors are full."""
PUTS_OFF_MAX = 4
"""What logs hold is not put off for more commits than this."""

Touched: TypeAlias = Partition | Replica
OnFailure = Callable[[Any, BrokerError], Any]
"""What to answer, given the answer of success, when the commit failed."""
OnWritten = Callable[[Partition, PendingWrite], None]
"""Gets a partition, and what is written of it and not durable yet."""


class Covered:
    """What a commit covers, and who waits for it."""

    __slots__ = ("answers", "replies", "touched")

    def __init__(
        self,
        touched: dict[Touched, int],
        answers: list[tuple[Deferred[Any], Any, OnFailure | None]],
        replies: list[tuple[Receiver, bytes, OnFailure]],
    ) -> None:
        self.touched = touched
        """How many bytes of each."""
        self.answers = answers
        self.replies = replies

    @property
    def clients(self) -> int:
        """How many clients wait. What a node commits for itself has nothing to say if it fails, and its next one does
        not follow at once."""
        answers = self.answers
        return len(self.replies) + (len(answers) if answers and answers[0][2] is not None else 0)


class Committer:
    """Gathers appends, commits them, sends replies, lets readers see them, tells others: in this order, but for the one
    reply of a commit that a reader waits for."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        group_commit: GroupCommit,
        executor: Executor,
        outbox: Outbox,
        inline_us_max: int,
        crowding: Crowding | None = None,
    ) -> None:
        self._loop = loop
        self._outbox = outbox
        self._group = group_commit
        self._executor = executor
        self._pace = SyncPace(inline_us_max)
        self._gathering = Gathering() if group_commit.syncs_commits else None
        self._shows_before_reply = group_commit.syncs_commits
        """Where nothing is synced, it takes more CPU and gives readers nothing (docs/decisions/0039)."""
        self._lookout = Lookout(Lookout.SYNCED_ANSWERS_MAX if group_commit.syncs_commits else Lookout.ANSWERS_MAX)
        self._is_looking = False
        self._crowding = crowding
        """None where time is not the system's."""
        self._is_crowded = False
        self.latency = Histogram()
        """Of commits: writing and syncing."""
        self.failures = 0
        """Commits that the disk refused, or that failed."""
        self._touched: dict[Touched, int] = {}
        self._answers: list[tuple[Deferred[Any], Any, OnFailure | None]] = []
        """Who is told when the next commit has succeeded, and of what; and what to tell if it has failed."""
        self.replies: list[tuple[Receiver, bytes, OnFailure]] = []
        """The same of those who are sent it as it is: before the others, and before all else."""
        self._puts_off = 0
        """Times in a row that what logs hold too much was not written, since a commit was next."""
        self._appends = 0
        """Batches of clients since the last commit."""
        self._scheduled = False
        self._running = False
        self._idle: asyncio.Future[None] | None = None
        self.failed: DiskFailedError | None = None
        """Why nothing can be written any more."""
        self.on_broken: Callable[[], None] = _nothing
        """Called once, when that has happened."""
        self._tell_failures_from = 0.0
        self.on_commit: Callable[[], None] = _nothing
        """Called after every commit, one that failed too: there may be room to be made."""
        self.on_written: OnWritten = _nothing_written
        """Called when the share of a partition is written, and will be synced next."""
        self.on_durable: Callable[[], None] = _nothing
        """Called when partitions know what a commit has made durable, before anybody is answered."""

    def append(self, partition: Partition, records: Any, now_ms: int, origin: Origin) -> int:
        """Append to a partition's log and see that the next commit covers it."""
        if self.failed is not None:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failed))
        log = partition.log
        base_offset = log.append_as_leader(records, partition.leader_epoch, now_ms, origin)
        self._appends += 1
        touched = self._touched
        before = touched.get(partition)
        if before is None:
            self._group.dirty[log] = None
            touched[partition] = len(records)
            if not self._scheduled:
                self.commit_soon()
        else:
            touched[partition] = before + len(records)
        return base_offset

    def append_as_follower(self, replica: Replica, records: Bytes, *, now_ms: int) -> None:
        """Append what the leader of a partition has sent, for the next commit. Raises CorruptBatchError."""
        if self.failed is not None:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failed))
        log = replica.log
        try:
            log.append_as_follower(records, now_ms=now_ms)
        finally:
            self._group.add(log)  # the batches before a damaged one are in the log
            self._touched[replica] = self._touched.get(replica, 0) + len(records)
            self.commit_soon()

    def cut(self, kind: Kind, log: Log, offset: int, apply: Callable[[], None]) -> None:
        """Truncate a log, or empty it: by `apply`, once that is in the journal. Nothing may be appended until then."""
        self._group.control(kind, log, offset, apply)
        self.commit_soon()

    @property
    def can_keep_whole(self) -> bool:
        """Whether records of several logs can be made durable all or nothing."""
        return self._group.can_be_whole

    def keep_whole(self) -> None:
        """Everything that is appended until the next commit is durable with it, all or nothing."""
        self._group.keep_whole()

    def delete_records_before(self, partition: Readable, offset: int) -> int:
        """Move the log's start forward; durable with the next commit. Returns where it is."""
        log = partition.log
        log.delete_records_before(offset)
        self._group.control(Kind.START_OFFSET, log, log.start_offset)
        self.commit_soon()
        partition.on_start_moved()
        return log.start_offset

    def commit_soon(self) -> None:
        """Commit at the end of this turn of the loop: something has changed."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def after_commit(self, answer: Any, on_failure: OnFailure | None = None) -> Deferred[Any]:
        """`answer`, once everything appended so far is durable."""
        deferred: Deferred[Any] = Deferred()
        if not self._scheduled and not self._running:
            deferred.complete(answer)
        else:
            self._answers.append((deferred, answer, on_failure))
            if not self._scheduled:
                self._scheduled = True
        return deferred

    async def drain(self) -> None:
        """Return when nothing is left to commit."""
        while self._scheduled or self._running:
            self._idle = self._loop.create_future()
            await self._idle

    # One commit: begin (loop) → run (loop or thread) → finish (loop).

    def _commit(self) -> None:
        if self._running:
            return
        if self._gathering is not None and self._gathering.is_worth_it(self._appends):
            if self._group.held.is_too_much and self._pace.is_quick:
                self._group.write_held(logs_max=1)
                self._gathering.has_worked()
            elif self._is_crowded:
                time.sleep(NAP_S)
                self._gathering.has_slept()
            self._loop.call_soon(self._commit)
            return
        self._scheduled = False
        self._appends = 0
        covered = Covered(self._touched, self._answers, self.replies)
        self._touched, self._answers, self.replies = {}, [], []
        try:
            is_quick = self._pace.is_quick
            commit = self._group.begin(hold=True, writes_later=is_quick)
        except Exception as bug:
            self._break(self._bug(bug))
            self._refuse(covered, BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(bug)))
            return
        if commit is None:
            self._finish(None, covered)
        elif is_quick:
            if len(covered.touched) == 1:
                self._show_before_sync(commit, next(iter(covered.touched)))
            started_ns = time.perf_counter_ns()
            error = self._run(commit)
            self._end(commit, covered, error, time.perf_counter_ns() - started_ns)
        else:
            self._running = True
            self._executor.submit(self._run_in_thread, commit, covered)

    def _show_before_sync(self, commit: Commit, partition: Touched) -> None:
        """Followers get a small share of one partition as soon as it is written. It counts when it is synced here."""
        if (
            isinstance(partition, Partition)
            and not partition.is_alone
            and commit.sync_journal
            and not commit.is_whole
            and len(commit.shares) == 1
            and not commit.shares[0].runs
            and commit.shares[0].log is partition.log
        ):
            commit.before_sync = partial(self._show, partition, commit.shares[0])

    def _show(self, partition: Partition, share: PendingWrite) -> None:
        try:
            self.on_written(partition, share)
        except Exception:
            log.exception(
                "a bug of ours: %s was not shown to its followers before it was synced", partition.log.partition
            )

    def _run_in_thread(self, commit: Commit, covered: Covered) -> None:
        started_ns = time.perf_counter_ns()
        error = self._run(commit)
        took_ns = time.perf_counter_ns() - started_ns
        self._loop.call_soon_threadsafe(self._thread_done, commit, covered, error, took_ns)

    def _run(self, commit: Commit) -> DiskFailedError | None:
        """Whatever goes wrong, it ends here: a commit that nobody finishes would hold every answer for ever."""
        try:
            commit.run()
        except DiskFailedError as error:
            return error
        except Exception as error:
            return self._bug(error)
        return None

    def _bug(self, error: Exception) -> DiskFailedError:
        log.error("a commit failed by a bug of ours; nothing is written until the node is restarted", exc_info=error)
        failure = DiskFailedError(f"internal error: {error!r}")
        self._group.poison(failure)
        return failure

    def _thread_done(self, commit: Commit, covered: Covered, error: DiskFailedError | None, took_ns: int) -> None:
        self._running = False
        self._end(commit, covered, error, took_ns)
        if self._scheduled:
            self._commit()

    def _end(self, commit: Commit, covered: Covered, error: DiskFailedError | None, took_ns: int) -> None:
        if error is not None:
            self._fail(commit, error, covered)
            return
        self._finish(commit, covered)
        self._pace.record(commit.sync_ns)
        if self._crowding is not None:
            self._crowding.committed()
            self._is_crowded = self._crowding.is_full
        self.latency.record(took_ns / 1000)

    def _reply(self, replies: list[tuple[Receiver, bytes, OnFailure]]) -> None:
        """Send what is ready to be sent."""
        receiver, reply, _ = replies[0]
        if len(replies) == 1:
            receiver.complete(reply)
        elif replies[-1][0] is receiver and all(other is receiver for other, _, _ in replies):
            receiver.complete_several([reply for _, reply, _ in replies])
        else:
            self._outbox.around(_send_all, replies)

    def _finish(self, commit: Commit | None, covered: Covered) -> None:
        replies = covered.replies
        replies_last = self._shows_before_reply and len(replies) == 1 and _has_readers(covered.touched)
        if replies and not replies_last:
            self._reply(replies)
        if commit is not None:
            self._group.finish(commit)
        if len(covered.touched) > 1 or len(covered.answers) > 1:
            self._outbox.around(self._tell, covered)
        else:
            self._tell(covered)
        if replies_last:
            self._reply(replies)
        if self._group.held.is_too_much and self._pace.is_quick:
            self._loop.call_soon(self._write_held)
        self._tell_idle()
        self.on_commit()
        is_worth_it = not self._is_crowded and self._lookout.is_worth_it(covered.clients)
        if is_worth_it and not self._is_looking and self._pace.is_quick:
            self._is_looking = True
            self._loop.call_soon(self._look_out)

    def _write_held(self) -> None:
        """What has become too much, unless a commit is next: then while that waits for others, or after it."""
        if self._scheduled and self._puts_off < PUTS_OFF_MAX:
            self._puts_off += 1
        else:
            self._puts_off = 0
            self._group.write_held()

    def _tell(self, covered: Covered) -> None:
        """What is durable: partitions, with their readers and followers, and those who wait for the commit."""
        for partition, size_bytes in covered.touched.items():
            partition.written_bytes += size_bytes
            partition.on_durable(size_bytes)
        self.on_durable()
        for deferred, answer, _ in covered.answers:
            deferred.complete(answer)

    def _look_out(self) -> None:
        self._is_looking = self._lookout.goes_on(self._scheduled)
        if self._is_looking:
            self._loop.call_soon(self._look_out)

    def _fail(self, commit: Commit, error: DiskFailedError, covered: Covered) -> None:
        """Nothing of this commit may be acknowledged, nor anything that was appended on top of it meanwhile.

        What gathered for other logs is refused too, although it will be committed: an answer does not say which logs it
        stands for, and a client that retries does no harm.
        """
        self.failures += 1
        self._tell_failure(error)
        gone = self._group.fail(commit)
        if self._group.failure is not None:
            self._break(self._group.failure)
        for partition in [since for since in self._touched if since.log in gone]:
            covered.touched[partition] = self._touched.pop(partition)
        covered.answers += self._answers
        covered.replies += self.replies
        self._answers, self.replies = [], []
        refused = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        for partition in covered.touched:
            partition.on_failed(refused)
        self._refuse(covered, refused)
        self.on_commit()

    def _break(self, failure: DiskFailedError) -> None:
        if self.failed is None:
            self.failed = failure
            self._loop.call_soon(self.on_broken)

    def _tell_failure(self, error: DiskFailedError) -> None:
        """A full disk fails every commit, many times a second: one line in a while says it as well."""
        now = self._loop.time()
        if now >= self._tell_failures_from:
            self._tell_failures_from = now + FAILURE_LINES_S
            log.error("a commit failed: %s", error)

    def _refuse(self, covered: Covered, refused: BrokerError) -> None:
        for receiver, reply, instead in covered.replies:
            receiver.complete(instead(reply, refused))
        for deferred, answer, on_failure in covered.answers:
            if on_failure is None:
                deferred.fail(refused)
            else:
                deferred.complete(on_failure(answer, refused))
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._idle is not None and not self._scheduled and not self._running:
            idle, self._idle = self._idle, None
            idle.set_result(None)


def _has_readers(touched: dict[Touched, int]) -> bool:
    """Whether somebody waits for what this commit has made durable, and need not wait for followers as well."""
    return any(isinstance(each, Partition) and each.is_alone and each.waiters for each in touched)


def _send_all(replies: list[tuple[Receiver, bytes, OnFailure]]) -> None:
    for receiver, reply, _ in replies:
        receiver.complete(reply)


def _nothing() -> None:
    """Nobody wants to know."""


def _nothing_written(_partition: Partition, _share: PendingWrite) -> None:
    """Nobody wants to know."""
