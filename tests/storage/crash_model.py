"""A node's storage on a disk that crashes, and a model that knows what must be found afterwards.

`Storage` runs the very code that a node runs (LogManager, GroupCommit, Log) and notes, for every log, what has been
acknowledged and what has only been asked for. `violations` recovers a crashed disk and compares: every acknowledged
batch must be there byte for byte, at its offset, in order; after them may only come batches that were waiting for their
acknowledgement, in order too; and a batch sent again must be recognised.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from ottla.config import BrokerConfig, Durability, JournalConfig, LogConfig, StorageConfig
from ottla.errors import BrokerError, DiskFailedError, OttlaError
from ottla.protocol.records import Record, build_batch, iter_batches
from ottla.storage.checkpoint import Job
from ottla.storage.held import Held
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager
from ottla.testing.disk import CrashingDisk, Operation
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED, Keep, Survival
from ottla.types import TopicId, TopicPartition

SMALL_SEGMENTS = LogConfig(segment_bytes=1_500, index_interval_bytes=150, retention_ms=-1, file_delete_delay_ms=0)
SECTOR_BYTES = 64
"""Smaller than any disk's, so that a small workload tears in many ways."""
SURVIVALS = (
    NOTHING_UNSYNCED,
    EVERYTHING_WRITTEN,
    Survival(data=Keep.NOTHING, names=Keep.EVERYTHING),
    Survival(data=Keep.ANY, names=Keep.ANY, sector_bytes=SECTOR_BYTES),
    Survival(data=Keep.ANY, names=Keep.EVERYTHING, sector_bytes=SECTOR_BYTES),
    Survival(data=Keep.PREFIX, names=Keep.PREFIX),
)


class ManualClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.time_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms


@dataclass
class Sent:
    """A batch as the log stored it, with the offset that it got."""

    offset: int
    end_offset: int
    stored: bytes
    original: bytes
    producer_id: int


@dataclass
class Expected:
    """What is known of one log from outside."""

    partition: TopicPartition
    topic_id: TopicId
    acknowledged: list[Sent] = field(default_factory=list)
    waiting: list[Sent] = field(default_factory=list)
    start_offset: int = 0
    start_offset_wanted: int = 0
    cut_wanted: int | None = None
    """A truncation that was asked for and has not been confirmed."""

    def allowed(self) -> Iterator[tuple[list[Sent], list[Sent]]]:
        """What may be there: batches that must be, and batches that may follow."""
        yield self.acknowledged, self.waiting
        if self.cut_wanted is not None:
            yield [sent for sent in self.acknowledged if sent.end_offset <= self.cut_wanted], []

    def cut(self, offset: int) -> None:
        self.acknowledged = [sent for sent in self.acknowledged if sent.end_offset <= offset]


def broker_config(durability: Durability = Durability.COMMIT) -> BrokerConfig:
    return BrokerConfig(
        journal=JournalConfig(durability=durability, file_size_bytes=64 << 10),
        storage=StorageConfig(recovery_checkpoint_interval_ms=1_000),
        log=SMALL_SEGMENTS,
    )


class Storage:
    """One run of a node's storage, from start to crash or clean stop."""

    def __init__(
        self,
        disk: CrashingDisk,
        expected: dict[TopicPartition, Expected],
        *,
        config: BrokerConfig | None = None,
        holds: bool = False,
    ) -> None:
        """`holds`: small writes wait in memory, in two commits of three; one of them is run as by a thread."""
        self.disk = disk
        self.expected = expected
        self.clock = ManualClock()
        self.config = config or broker_config()
        self.logs = LogManager(disk, self.config, clock=self.clock, random=Random(7))
        self.logs.group_commit.segment_sync_bytes_min = 700
        self.logs.group_commit.held = Held(log_bytes_max=600, all_bytes_max=900)
        self._holds = holds
        self.logs.recover_metadata()
        self.logs.recover(self._find)
        self._job: Job | None = None

    def _find(self, topic_id: TopicId, index: int) -> tuple[TopicPartition, LogConfig] | None:
        for partition, expected in self.expected.items():
            if expected.topic_id == topic_id and partition.partition == index:
                return partition, SMALL_SEGMENTS
        return None

    def log(self, partition: TopicPartition) -> Log:
        return self.logs.get(partition, self.expected[partition].topic_id, SMALL_SEGMENTS)

    def _is_leaving(self, partition: TopicPartition) -> bool:
        """Whether the last log of this name is still in the hands of a commit or checkpoint: clients must try again."""
        try:
            self.log(partition)
        except BrokerError:
            return True
        return False

    # What a node does

    def append(self, partition: TopicPartition, *, size: int = 30, producer_id: int = -1) -> None:
        expected = self.expected[partition]
        if expected.cut_wanted is not None or self._is_leaving(partition):
            return
        log = self.log(partition)
        sequence = next_sequence(expected, producer_id) if producer_id >= 0 else -1
        value = f"{partition} {log.end_offset} ".encode().ljust(size, b".")
        records = [Record(timestamp_ms=self.clock.now_ms(), key=None, value=value) for _ in range(2)]
        original = build_batch(
            records, producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1, base_sequence=sequence
        )
        offset = log.append_as_leader(original, leader_epoch=3, now_ms=self.clock.now_ms())
        stored = b"".join(log.pending[-2:])
        expected.waiting.append(Sent(offset, log.end_offset, stored, original, producer_id))
        self.logs.group_commit.add(log)

    def commit(self) -> None:
        group = self.logs.group_commit
        number = group.next_number
        in_thread = self._holds and number % 3 == 2
        commit = group.begin(hold=self._holds and number % 3 != 0, writes_later=not in_thread)
        if commit is None:
            return
        covered = {partition: list(expected.waiting) for partition, expected in self.expected.items()}
        if in_thread:
            self._meanwhile(number)
        try:
            commit.run()
        except DiskFailedError:
            gone = group.fail(commit)
            for partition, expected in self.expected.items():
                if not group.poisoned and any(log.partition == partition for log in gone):
                    expected.waiting.clear()
            raise
        group.finish(commit)
        if not in_thread:
            group.write_held()
        for partition, sent in covered.items():
            if partition in self.expected:
                self._acknowledge(self.expected[partition], sent)

    def _meanwhile(self, number: int) -> None:
        """What the loop does while a thread commits: segments roll under it, and checkpoints begin."""
        partition = list(self.expected)[number % len(self.expected)]
        with suppress(BrokerError):  # no room for a new segment
            for _ in range(number % 4):
                self.append(partition)
        if number % 2:
            self.work()

    def _acknowledge(self, expected: Expected, sent: list[Sent]) -> None:
        expected.acknowledged += sent
        del expected.waiting[: len(sent)]
        expected.start_offset = expected.start_offset_wanted

    def truncate(self, partition: TopicPartition, back: int) -> None:
        """Cut `back` batches off the end; what waits must have been committed."""
        expected = self.expected[partition]
        self.commit()
        while expected.waiting:  # it came while a thread committed
            self.commit()
        if expected.cut_wanted is not None or back >= len(expected.acknowledged) or self._is_leaving(partition):
            return
        offset = expected.acknowledged[-back].offset if back else self.log(partition).end_offset
        if offset < expected.start_offset_wanted:
            return
        expected.cut_wanted = offset

        def cut() -> None:
            expected.cut(offset)
            expected.cut_wanted = None

        self.logs.truncate(self.log(partition), offset, cut)

    def delete_records(self, partition: TopicPartition, count: int) -> None:
        expected = self.expected[partition]
        if expected.cut_wanted is not None or self._is_leaving(partition):
            return
        offset = min(expected.start_offset_wanted + count, self.log(partition).durable_offset)
        if offset > expected.start_offset_wanted:
            expected.start_offset_wanted = offset
            self.logs.delete_records(self.log(partition), offset)

    def retain(self, partition: TopicPartition) -> None:
        """Retention lets segments below the start of the log go."""
        if self._is_leaving(partition):
            return
        log = self.log(partition)
        self.logs.retain(log, high_watermark=log.durable_offset, now_ms=self.clock.now_ms())

    def delete_topic(self, partition: TopicPartition) -> None:
        """Deleted and created again: same name, another id."""
        old = self.expected[partition]
        topic_id = old.topic_id[:-1] + bytes([old.topic_id[-1] + 1])
        self.expected[partition] = Expected(partition, topic_id)
        self.logs.delete(partition, old.topic_id)

    def begin_checkpoint(self) -> None:
        if self._job is None:
            self._job = self.logs.checkpoint()

    def work(self) -> None:
        """One step of what goes on in the background."""
        if self._job is None:
            self.clock.time_ms += 100
            self._job = self.logs.next_job()
        if self._job is not None:
            self._job.run()
            self._job = self._job.finish()

    def settle(self) -> None:
        """Let the background finish what it is at."""
        while self._job is not None:
            self.work()

    def stop(self) -> None:
        self.settle()
        self.commit()
        self.logs.close()


def next_sequence(expected: Expected, producer_id: int) -> int:
    """The next sequence number of a producer whose batches all have two records."""
    sent = [*expected.acknowledged, *expected.waiting]
    return 2 * sum(one.producer_id == producer_id for one in sent)


# Checking


def contents(log: Log) -> list[bytes]:
    """All batches of a log, byte for byte."""
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20, upto_offset=log.end_offset, min_one_batch=True)
        batches = list(iter_batches(data))
        if not batches:
            break
        found += [bytes(batch.data) for batch in batches]
        offset = batches[-1].last_offset + 1
    return found


def violations(
    disk: CrashingDisk, expected: dict[TopicPartition, Expected], config: BrokerConfig | None = None
) -> list[str]:
    """What is wrong with a disk after a crash. Recovers it in doing so."""
    found: list[str] = []
    try:
        storage = Storage(disk, expected, config=config)
        for one in expected.values():
            found += _log_violations(storage.log(one.partition), one)
    except (OttlaError, OSError) as error:
        found.append(f"recovery failed: {error!r}")
    return found


def _log_violations(log: Log, expected: Expected) -> list[str]:
    name, found = log.partition, []
    batches = contents(log)
    if not any(_matches(log, batches, must, may) for must, may in expected.allowed()):
        offsets = [next(iter(iter_batches(batch))).base_offset for batch in batches]
        found.append(
            f"{name}: from {log.start_offset} to {log.end_offset} with batches at {offsets}, where"
            f" {[sent.offset for sent in expected.acknowledged]} were acknowledged and"
            f" {[sent.offset for sent in expected.waiting]} waited (cut wanted: {expected.cut_wanted})"
        )
    if not expected.start_offset <= log.start_offset <= expected.start_offset_wanted:
        found.append(
            f"{name}: starts at {log.start_offset}, not between {expected.start_offset} and"
            f" {expected.start_offset_wanted}"
        )
    if log.durable_offset != log.end_offset:
        found.append(f"{name}: ends at {log.end_offset}, durable up to {log.durable_offset}")
    return found + _unrecognised(log, expected)


def _matches(log: Log, batches: list[bytes], must: list[Sent], may: list[Sent]) -> bool:
    wanted = [sent.stored for sent in must if sent.end_offset > log.start_offset]
    follow = [sent.stored for sent in may]
    return batches[: len(wanted)] == wanted and follow[: len(batches) - len(wanted)] == batches[len(wanted) :]


def _unrecognised(log: Log, expected: Expected) -> list[str]:
    """Each producer's last batch, sent again, must be answered with the offset that it got."""
    found = []
    there = [sent for sent in (*expected.acknowledged, *expected.waiting) if sent.end_offset <= log.end_offset]
    last = {sent.producer_id: sent for sent in there if sent.producer_id >= 0}
    for sent in last.values():
        if log.start_offset > sent.offset:
            continue
        try:
            offset = log.append_as_leader(sent.original, leader_epoch=3, now_ms=1_700_000_000_000)
        except BrokerError as error:
            found.append(f"{log.partition}: the batch at {sent.offset}, sent again, got {error!r}")
        else:
            if offset != sent.offset:
                found.append(f"{log.partition}: the batch at {sent.offset}, sent again, was stored at {offset}")
    return found


class CrashEverywhere:
    """Crashes a disk before each of its operations, in several ways, and checks what is left."""

    def __init__(
        self,
        disk: CrashingDisk,
        expected: dict[TopicPartition, Expected],
        *,
        every: int = 1,
        survivals: tuple[Survival, ...] = SURVIVALS,
        check: Callable[[CrashingDisk, dict[TopicPartition, Expected]], list[str]] = violations,
    ) -> None:
        self._expected = expected
        self._every = every
        self._survivals = survivals
        self._check = check
        self.operations = 0
        self.crashes = 0
        self.violations: list[str] = []
        self.follow(disk)

    def follow(self, disk: CrashingDisk) -> None:
        """Go on with another disk: what a crash has left of the last one."""
        self._disk = disk
        disk.before_operation = self._before

    def _before(self, operation: Operation, path: str) -> None:
        self.operations += 1
        if self.operations % self._every == 0:
            self.crash(f"before operation {self.operations} ({operation} {path})")

    def crash(self, when: str) -> None:
        for survival in self._survivals:
            self.crashes += 1
            for violation in self._check(self._disk.crash(survival), self._expected):
                self.violations.append(f"{when}, {survival.data.name}/{survival.names.name}: {violation}")


def new_log(name: str, index: int = 0) -> tuple[TopicPartition, Expected]:
    partition = TopicPartition(name, index)
    return partition, Expected(partition, name.encode().ljust(16, b"\1"))
