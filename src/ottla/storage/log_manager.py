"""All logs of a node: opened when they are first used, committed together, recovered, deleted, closed.

    recover_metadata()  the log that says which partitions there are
    recover(find)       all logs of which the journal says something; `find` knows the partitions
    get(...)            a log, opened if it is not open
    next_job()          what should be done in the background now
    close()             after it the next start has nothing to recover

Nothing is done per partition at the start. After a clean stop a log is opened by what the names in its directory say.
After a crash the journal names the logs that need a look; each of the others is checked from its recovery point on when
it is first used. That is its end, save for what a commit had written that was never acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ottla.config import Durability, LogConfig
from ottla.errors import BrokerError, CorruptLogError, DiskFailedError, ErrorCode, invariant
from ottla.storage import checkpoints, compaction_plan
from ottla.storage.checkpoint import Job, PrepareFile, SyncJournal, begin_checkpoint
from ottla.storage.checkpoints import NOTHING_KNOWN, CleanShutdown, KnownOffsets, LogOffsets
from ottla.storage.clean_offsets import CleanOffsets
from ottla.storage.directories import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    find_doomed,
    find_logs,
    find_strays,
    first_offset_in,
    partition_of,
    rename_away,
    topic_id_in,
)
from ottla.storage.group_commit import GroupCommit
from ottla.storage.journal import Journal
from ottla.storage.journal_format import Kind
from ottla.storage.journal_reader import JournalReader
from ottla.storage.log import Log
from ottla.storage.pending import DirectorySync, sync_many
from ottla.storage.recovery import History, LogRecovery, RecoveryReport, read_histories, write_again
from ottla.storage.removals import Removals
from ottla.types import METADATA_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ottla.config import BrokerConfig
    from ottla.ports import Clock, Disk, Random
    from ottla.storage.compaction_plan import Plan
    from ottla.storage.compaction_swap import Swap
    from ottla.storage.pending import Syncable
    from ottla.types import TopicId

log_lines = logging.getLogger(__name__)

METADATA = TopicPartition("__cluster_metadata", 0)
METADATA_LOG_CONFIG = LogConfig(retention_ms=-1, max_message_bytes=64 << 20)
CHECKPOINT_PAUSE_MS = 100
"""Between two checkpoints at least, however fast the journal fills: it grows meanwhile."""

Find: TypeAlias = "Callable[[TopicId, int], tuple[TopicPartition, LogConfig] | None]"
"""The partition of a topic id and number, if there is one on this node."""
Known: TypeAlias = "tuple[TopicPartition, TopicId, LogConfig]"


class LogManager:
    """Called in the event loop."""

    def __init__(self, disk: Disk, config: BrokerConfig, *, clock: Clock, random: Random) -> None:
        self._disk = disk
        self._config = config
        self._clock = clock
        self._random = random
        self._logs: dict[TopicPartition, Log] = {}
        self._leaving: set[TopicPartition] = set()
        """Deleted, and a commit that is under way still writes to them."""
        self.report = RecoveryReport()
        self._known = self._read_offsets()
        self._clean_offsets = self._read_clean_offsets()
        shutdown = checkpoints.take_clean_shutdown(disk)
        self._unchecked = set(shutdown.unchecked if shutdown else find_logs(disk))
        """Directories of logs that were not closed before the last stop, and not opened since."""
        self._reader = None if shutdown else JournalReader(disk)
        self._histories = read_histories(self._reader) if self._reader else {}
        journal = Journal(
            disk,
            random,
            file_size_bytes=config.journal.file_size_bytes,
            resume=shutdown.journal if shutdown else self._reader.resume() if self._reader else None,
        )
        self.group_commit = GroupCommit(journal, durability=config.journal.durability)
        self.group_commit.is_open = False
        self.removals = Removals(disk)
        self._checkpoint_ms = self._journal_sync_ms = clock.monotonic_ms()
        self._checkpoint_wanted = False

    @property
    def checkpointed_ms(self) -> int:
        """When logs were last synced by themselves: what the journal holds is from then on."""
        return self._checkpoint_ms

    def _read_offsets(self) -> KnownOffsets:
        try:
            return KnownOffsets.read(self._disk)
        except CorruptLogError as error:
            self.report.problems.append(f"{error}; it is made anew.")
            return KnownOffsets()

    def _read_clean_offsets(self) -> CleanOffsets:
        try:
            return CleanOffsets.read(self._disk)
        except CorruptLogError as error:
            self.report.problems.append(f"{error}; no log counts as compacted.")
            return CleanOffsets()

    # Starting

    @property
    def had_crashed(self) -> bool:
        """Whether there was a run before this one that did not end in a clean stop."""
        return self._reader is not None and self._reader.block_count > 0

    def recover_metadata(self) -> Log:
        """The log from which all else is learned, as it was."""
        history = self._histories.pop((METADATA_TOPIC_ID, METADATA.partition), None)
        if history is not None:
            self._recover_log(METADATA, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, history)
            self._sync_logs()
        return self.get(METADATA, METADATA_TOPIC_ID, METADATA_LOG_CONFIG)

    def recover(self, find: Find) -> RecoveryReport:
        """Make the logs what they were. From here on commits are possible."""
        for (topic_id, index), history in self._histories.items():
            found = None if history.is_removed else find(topic_id, index)
            if found is None:
                self.report.logs_gone += 1
            else:
                self._recover_log(found[0], topic_id, found[1], history)
        if self._reader is not None and self._reader.block_count:
            self._end_recovery(self._reader)
        self._histories = {}
        for directory in find_doomed(self._disk):
            self.removals.add_tree(directory, self._clock.monotonic_ms() + self._config.log.file_delete_delay_ms)
        self.group_commit.is_open = True
        return self.report

    def _recover_log(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig, history: History) -> None:
        assert self._reader is not None
        known = self._known.of(topic_id, partition.partition)
        start_offset = history.start_offset if history.replaced else max(history.start_offset, known.start_offset)
        if history.says_nothing_of_records:
            self._known.note(topic_id, partition.partition, known._replace(start_offset=start_offset))
            return
        if history.end == 0 and topic_id_in(self._disk, str(partition)) is None:
            self._disk.remove_tree(str(partition))  # all of it is in the journal
        self._admit(partition, topic_id, is_needed=True)
        log = Log.open(
            self._disk,
            str(partition),
            partition,
            topic_id,
            config,
            clean=False,
            recovery_point=min(known.recovery_point, history.low),
            start_offset=min(start_offset, history.low),
            now_ms=self._clock.now_ms(),
        )
        # Records that come from the journal again were never compacted, whatever is said of those that they replace.
        log.clean_offset = min(self._clean_offsets.of(partition), history.low)
        try:
            LogRecovery(log, history, self._reader, self.report).run(start_offset)
        except OSError as error:
            raise DiskFailedError(f"Could not recover {partition}: {error}") from error
        self._opened(log)

    def _end_recovery(self, reader: JournalReader) -> None:
        """Sync all logs, say so, then let the journal begin anew."""
        self._sync_logs()
        self.report.journal_blocks = reader.block_count
        self.report.torn_blocks = reader.torn_blocks
        self.report.problems += reader.damage
        for target in self._checkpoint_files(self._logs.values()):
            target.sync()
        self._write_empty_block()
        for log in self._logs.values():
            log.journaled_from = log.end_offset
        reader.close()

    def _sync_logs(self) -> None:
        """Those that are open, all at once: after a crash they may be thousands."""
        upto = {log: log.written_offset for log in self._logs.values()}
        sync_many(self._disk, [target for log in upto for target in log.take_dirty_files()])
        for log, offset in upto.items():
            log.synced_upto(offset)

    def _write_empty_block(self) -> None:
        """Nothing before it is needed."""
        journal = self.group_commit.journal
        journal.begin_again()
        journal.release(journal.next_sequence)
        block = journal.block((), 0, 0)
        block.write()
        block.into.sync()
        journal.mark_synced(block.sequence)

    # Logs

    def get(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """The log of a partition; an empty one if there is none on disk."""
        log = self._logs.get(partition)
        if log is None:
            if partition in self._leaving:
                raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} was deleted a moment ago")
            try:
                log = self._open(partition, topic_id, config)
            except OSError as error:
                raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, f"Could not open {partition}: {error}") from error
        invariant(log.topic_id == topic_id, f"{partition} belongs to another topic of the same name")
        return log

    def opened(self) -> Iterable[Log]:
        return self._logs.values()

    def _open(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        self._admit(partition, topic_id)
        known = self._known.of(topic_id, partition.partition)
        clean = str(partition) not in self._unchecked
        log = Log.open(
            self._disk,
            str(partition),
            partition,
            topic_id,
            config,
            clean=clean,
            recovery_point=known.recovery_point,
            start_offset=known.start_offset,
            now_ms=self._clock.now_ms(),
        )
        log.clean_offset = min(self._clean_offsets.of(partition), log.end_offset)
        if log.end_offset > log.recovery_point:
            # What follows it in the journal must find it there after the next crash.
            write_again(log, log.recovery_point)
            log.sync()
        for problem in log.report.problems:
            log_lines.warning("%s", problem)
        self._opened(log)
        return log

    def _opened(self, log: Log) -> None:
        self._logs[log.partition] = log
        self._unchecked.discard(log.directory)
        self._note_offsets(log)

    def _admit(self, partition: TopicPartition, topic_id: TopicId, *, is_needed: bool = False) -> None:
        """See that the partition's directory is its own. `is_needed`: the journal says that it holds something."""
        directory = str(partition)
        if not self._disk.exists(directory):
            return
        found = topic_id_in(self._disk, directory)
        is_needed |= directory not in self._unchecked
        is_needed |= self._known.of(topic_id, partition.partition) != NOTHING_KNOWN
        if found not in (None, topic_id):
            self._put_aside(directory, "is of another topic")
        elif not is_needed and found is None:
            self._free_name(partition, None)  # a crash came before anything in it was acknowledged
        elif not is_needed and first_offset_in(self._disk, directory):
            self._put_aside(directory, "has lost its beginning, of which nothing was acknowledged")

    def _put_aside(self, directory: str, why: str) -> None:
        renamed = rename_away(self._disk, self._random, directory, STRAY_SUFFIX)
        self._disk.sync_directory("")
        log_lines.warning("The directory %s %s; it is now called %s.", directory, why, renamed)

    # Changing logs

    def delete(self, partition: TopicPartition, topic_id: TopicId) -> None:
        """The partition is gone: free its name now, and its room on the disk later."""
        log = self._logs.pop(partition, None)
        if log is not None and log.swap is not None:
            log.swap.drop()
        self._clean_offsets.note(partition, 0)
        self._known.forget(topic_id, partition.partition)
        self._unchecked.discard(str(partition))
        self.group_commit.remove(topic_id, partition.partition, log)
        if log is None:
            self._free_name(partition, None)
        elif not self.group_commit.when_quiet(log, lambda: self._free_name(partition, log)):
            self._leaving.add(partition)

    def _free_name(self, partition: TopicPartition, log: Log | None) -> None:
        self._leaving.discard(partition)
        if log is not None:
            # The commit that was under way has put it there again.
            self.group_commit.unsynced.pop(log, None)
            self.group_commit.held.forget(log)
            for segment in log.segments:
                segment.close()
        if not self._disk.exists(str(partition)):
            return
        try:
            directory = rename_away(self._disk, self._random, str(partition), DELETE_SUFFIX)
        except OSError as error:
            self.group_commit.poison(DiskFailedError(f"Could not rename the directory of {partition}: {error}"))
            return
        config = self._config.log if log is None else log.config
        self.removals.add_tree(directory, self._clock.monotonic_ms() + config.file_delete_delay_ms)

    def delete_records(self, log: Log, offset: int) -> None:
        """The log starts at `offset` now; that is durable with the next commit."""
        log.delete_records_before(offset)
        self.group_commit.control(Kind.START_OFFSET, log, log.start_offset)

    def truncate(self, log: Log, offset: int, then: Callable[[], None] | None = None) -> None:
        """Cut the log with the next commit; `then` is called when that has happened. No appends until then."""

        def apply() -> None:
            log.truncate_to(offset)
            if then is not None:
                then()

        self.group_commit.control(Kind.TRUNCATE, log, offset, apply)

    def restart(self, log: Log, offset: int, then: Callable[[], None] | None = None) -> None:
        """Empty the log with the next commit; it goes on at `offset`. No appends until then."""

        def apply() -> None:
            log.truncate_fully_and_start_at(offset)
            if then is not None:
                then()

        self.group_commit.control(Kind.RESTART, log, offset, apply)

    def retain(self, log: Log, *, high_watermark: int, now_ms: int) -> int:
        """Let go of what retention says. Returns the number of segments."""
        deleted = log.delete_old_segments(now_ms, high_watermark)
        if deleted:
            self.group_commit.control(Kind.START_OFFSET, log, log.start_offset)
            self.removals.add_segments(deleted, self._clock.monotonic_ms() + log.config.file_delete_delay_ms)
        return len(deleted)

    def retention_pass(
        self, known: Iterable[Known], high_watermark: Callable[[Log], int], *, slice_logs: int = 16
    ) -> Iterator[int]:
        """Retention for all logs, those too that nobody has opened. Yields after each slice, so that the loop can do
        other things in between: the number of segments let go.
        """
        deleted = 0
        for number, (partition, topic_id, config) in enumerate(known, 1):
            try:
                deleted += self._retain_known(partition, topic_id, config, high_watermark)
            except (BrokerError, OSError) as error:
                log_lines.warning("Retention has to leave %s for later: %s", partition, error)
            if number % slice_logs == 0:
                yield deleted
                deleted = 0
        yield deleted

    def _retain_known(
        self, partition: TopicPartition, topic_id: TopicId, config: LogConfig, high_watermark: Callable[[Log], int]
    ) -> int:
        was_open = partition in self._logs
        was_clean = str(partition) not in self._unchecked
        log = self.get(partition, topic_id, config)
        now_ms = self._clock.now_ms()
        deleted = self.retain(log, high_watermark=high_watermark(log) if was_open else log.end_offset, now_ms=now_ms)
        log.expire_producers(now_ms, self._config.storage.producer_id_expiration_ms)
        if not was_open and was_clean and not deleted:
            del self._logs[partition]
            for segment in log.segments:
                segment.close()
        return deleted

    def compaction(self, high_watermark: Callable[[Log], int], leave: Collection[TopicPartition]) -> Plan | None:
        """What to compact next, of the logs that are open, if it pays. Not those to `leave`."""
        best: Plan | None = None
        now_ms = self._clock.now_ms()
        for log in self._logs.values():
            if not log.config.compacts or log.partition in leave or log.swap is not None:
                continue
            # Only a checkpoint makes a segment ready for compaction: it need not wait for its hour.
            self._checkpoint_wanted |= log in self.group_commit.unsynced and (
                min(log.recovery_point, log.journaled_from) < log.segments[-1].base_offset
            )
            found = compaction_plan.plan(log, high_watermark=high_watermark(log), now_ms=now_ms)
            if found is not None and found.pays and (best is None or found.urgency > best.urgency):
                best = found
        return best

    def has(self, log: Log) -> bool:
        """Whether this log is still one of the node's."""
        return self._logs.get(log.partition) is log

    def compacted(self, swap: Swap, log: Log) -> list[Syncable]:
        """Compacted segments are in place, for good. Returns what says so."""
        self.removals.add_segments(swap.deleted, self._clock.monotonic_ms() + log.config.file_delete_delay_ms)
        self._note_offsets(log)
        return self._clean_offsets.files(self._disk)

    # In the background

    def next_job(self) -> Job | None:
        """What to do now: `job.run()` in a thread, then `job.finish()` here, which says what to run next. One at a
        time. To be asked after commits, and now and then.
        """
        group = self.group_commit
        if group.failure is not None:
            return None
        preparation = group.journal.preparation()
        if preparation is not None:
            return PrepareFile(group, preparation)
        now_ms = self._clock.monotonic_ms()
        if self._journal_sync_is_due(now_ms):
            self._journal_sync_ms = now_ms
            return SyncJournal(group)
        if self._checkpoint_is_due(now_ms):
            return self.checkpoint()
        return self.removals.job(now_ms)

    def checkpoint(self) -> Job | None:
        """Sync all segments, so that the journal may forget what is in them."""
        self._checkpoint_ms = self._clock.monotonic_ms()
        self._checkpoint_wanted = False
        return begin_checkpoint(self.group_commit, self._checkpoint_files)

    def _journal_sync_is_due(self, now_ms: int) -> bool:
        settings = self._config.journal
        return (
            settings.durability is Durability.INTERVAL
            and now_ms - self._journal_sync_ms >= settings.sync_interval_ms
            and self.group_commit.has_unsynced_files
        )

    def _checkpoint_is_due(self, now_ms: int) -> bool:
        group, since_ms = self.group_commit, now_ms - self._checkpoint_ms
        if group.journal.full_files or self._checkpoint_wanted:
            return since_ms >= CHECKPOINT_PAUSE_MS
        return bool(group.unsynced) and since_ms >= self._config.storage.recovery_checkpoint_interval_ms

    def _checkpoint_files(self, logs: Iterable[Log]) -> list[Syncable]:
        """What recovery must know of these logs once the journal says nothing of them any more."""
        for log in logs:
            self._note_offsets(log)
        return [
            DirectorySync(self._disk, ""),
            *self._clean_offsets.files(self._disk),
            self._known.file(self._disk),
        ]

    def _note_offsets(self, log: Log) -> None:
        if self._logs.get(log.partition) is log:
            offsets = LogOffsets(log.recovery_point, log.start_offset)
            self._known.note(log.topic_id, log.partition.partition, offsets)
            self._clean_offsets.note(log.partition, log.clean_offset)

    # Looking and stopping

    def strays(self, is_known: Callable[[TopicPartition], bool]) -> list[str]:
        """Directories that belong to no partition that this node should have."""
        return find_strays(self._disk, lambda partition: partition == METADATA or is_known(partition))

    def drop_strays(self, is_known: Callable[[TopicPartition, TopicId], bool]) -> list[TopicPartition]:
        """Delete the logs of partitions that this node should not have any more. Returns which."""
        dropped = []
        for directory in find_logs(self._disk):
            partition, topic_id = partition_of(directory), topic_id_in(self._disk, directory)
            if partition in (None, METADATA) or topic_id is None or is_known(partition, topic_id):
                continue
            self.delete(partition, topic_id)
            dropped.append(partition)
        return dropped

    def write_held(self) -> None:
        """Everything that can be read here is in the files then, for whoever looks at those."""
        for log in self._logs.values():
            log.write_held()

    def close(self) -> None:
        """Leave everything so that the next start has nothing to do. Without a commit or a job under way.

        Raises DiskFailedError if that could not be: then the next start recovers, as after a crash.
        """
        if self.group_commit.failure is not None:
            raise self.group_commit.failure
        self.group_commit.commit()
        try:
            sync_many(self._disk, [target for log in self._logs.values() for target in log.begin_close()])
            for log in self._logs.values():
                log.end_close()
            for target in self._checkpoint_files(self._logs.values()):
                target.sync()
            self._write_kafka_files()
            self._write_empty_block()
            shutdown = CleanShutdown(journal=self.group_commit.journal.position, unchecked=frozenset(self._unchecked))
            checkpoints.write_clean_shutdown(self._disk, shutdown)
        except OSError as error:
            raise DiskFailedError(f"Could not stop cleanly: {error}") from error
        finally:
            self.group_commit.journal.close()

    def _write_kafka_files(self) -> None:
        logs = self._logs.values()
        points = {log.partition: log.recovery_point for log in logs}
        starts = {log.partition: log.start_offset for log in logs if log.start_offset > log.segments[0].base_offset}
        checkpoints.write_kafka_offsets(self._disk, checkpoints.RECOVERY_POINTS, points)
        checkpoints.write_kafka_offsets(self._disk, checkpoints.START_OFFSETS, starts)
