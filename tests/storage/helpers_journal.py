"""What the tests of commits, checkpoints and the log manager share."""

from random import Random

from ottla.config import BrokerConfig, Durability, JournalConfig, LogConfig, StorageConfig
from ottla.protocol.records import Record, build_batch, iter_batches
from ottla.storage.checkpoint import Job
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager
from ottla.testing.disk import CrashingDisk
from ottla.types import TopicId, TopicPartition

from .crash_model import ManualClock

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
IDS = {A: b"a" * 16, B: b"b" * 16}
CONFIG = LogConfig(file_delete_delay_ms=1_000)


def config(durability: Durability = Durability.COMMIT, *, file_size_bytes: int = 64 << 10) -> BrokerConfig:
    return BrokerConfig(
        journal=JournalConfig(durability=durability, file_size_bytes=file_size_bytes),
        storage=StorageConfig(recovery_checkpoint_interval_ms=5_000),
        log=CONFIG,
    )


def find(topic_id: TopicId, index: int) -> tuple[TopicPartition, LogConfig] | None:
    return next(((partition, CONFIG) for partition, known in IDS.items() if known == topic_id), None)


def start(disk: CrashingDisk, settings: BrokerConfig | None = None, clock: ManualClock | None = None) -> LogManager:
    manager = LogManager(disk, settings or config(), clock=clock or ManualClock(), random=Random(3))
    manager.recover_metadata()
    manager.recover(find)
    return manager


def log_of(manager: LogManager, partition: TopicPartition = A) -> Log:
    return manager.get(partition, IDS[partition], CONFIG)


def small_batch(size: int = 20) -> bytes:
    return build_batch([Record(timestamp_ms=1_700_000_000_000, key=None, value=b"v" * size)])


def append(manager: LogManager, partition: TopicPartition = A, *, size: int = 20, count: int = 1) -> None:
    log = log_of(manager, partition)
    for _ in range(count):
        log.append_as_leader(small_batch(size), leader_epoch=0, now_ms=1_700_000_000_000)
    manager.group_commit.add(log)


def commit(manager: LogManager, partition: TopicPartition = A, *, size: int = 20, count: int = 1) -> None:
    append(manager, partition, size=size, count=count)
    manager.group_commit.commit()


def work(manager: LogManager) -> list[str]:
    """Do all that is due in the background. Returns what it was."""
    done = []
    job = manager.next_job()
    while job is not None:
        done.append(type(job).__name__)
        job.run()
        job = job.finish() or manager.next_job()
    return done


def begin_checkpoint(manager: LogManager) -> Job:
    job = manager.checkpoint()
    assert job is not None
    return job


def run_all(job: Job | None) -> int:
    """A job and all that follow it. Returns how many there were."""
    count = 0
    while job is not None:
        count += 1
        job.run()
        job = job.finish()
    return count


def checkpoint(manager: LogManager) -> None:
    run_all(begin_checkpoint(manager))


def offsets(log: Log) -> list[int]:
    data = log.read(log.start_offset, 1 << 20, upto_offset=log.end_offset, min_one_batch=True)
    return [batch.base_offset for batch in iter_batches(data)]
