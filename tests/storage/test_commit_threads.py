"""Commits and background jobs in real threads, on a real disk, while the loop goes on: nothing may get mixed up."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from ottla.config import BrokerConfig, JournalConfig, LogConfig, StorageConfig
from ottla.errors import BrokerError
from ottla.protocol.records import iter_batches
from ottla.runtime.disk import OsDisk
from ottla.storage.checkpoint import Job
from ottla.storage.group_commit import Commit
from ottla.storage.held import Held
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager
from ottla.types import TopicId, TopicPartition

from .crash_model import ManualClock
from .helpers_journal import small_batch

pytestmark = pytest.mark.usefixtures("bounds_that_are_met")

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500, file_delete_delay_ms=0)
TURNS = 400


class Loop:
    """What the runtime does, with threads for what may run in threads."""

    def __init__(self, directory: Path, topics: dict[TopicPartition, TopicId], *, holds: bool) -> None:
        self.topics = topics
        self.clock = ManualClock()
        config = BrokerConfig(
            journal=JournalConfig(file_size_bytes=64 << 10),
            storage=StorageConfig(recovery_checkpoint_interval_ms=50),
            log=CONFIG,
        )
        # Fewer descriptors than files: they are closed and opened all the time, under the threads.
        disk = OsDisk(str(directory), open_files_max=16)
        self.logs = LogManager(disk, config, clock=self.clock, random=Random(1))
        self.logs.group_commit.segment_sync_bytes_min = 4_000
        self.logs.group_commit.held = Held(log_bytes_max=1_000, all_bytes_max=5_000)
        self._holds = holds
        self.logs.recover_metadata()
        self.logs.recover(self._find)
        self.durable: dict[TopicId, list[bytes]] = {topic_id: [] for topic_id in topics.values()}
        self.waiting: dict[TopicId, list[bytes]] = {topic_id: [] for topic_id in topics.values()}
        self._commit: tuple[Commit, Future[None], dict[TopicId, int]] | None = None
        self._job: tuple[Job, Future[None]] | None = None

    def _find(self, topic_id: TopicId, index: int) -> tuple[TopicPartition, LogConfig] | None:
        return next(((partition, CONFIG) for partition, known in self.topics.items() if known == topic_id), None)

    def log(self, partition: TopicPartition) -> Log:
        return self.logs.get(partition, self.topics[partition], CONFIG)

    def append(self, partition: TopicPartition, size: int) -> None:
        try:
            log = self.log(partition)
        except BrokerError:
            return
        log.append_as_leader(small_batch(size), leader_epoch=0, now_ms=1_700_000_000_000)
        self.waiting[self.topics[partition]].append(b"".join(log.pending[-2:]))
        self.logs.group_commit.add(log)

    def recreate(self, partition: TopicPartition, topic_id: TopicId) -> None:
        self.logs.delete(partition, self.topics[partition])
        self.topics[partition] = topic_id
        self.durable[topic_id], self.waiting[topic_id] = [], []

    def turn(self, threads: ThreadPoolExecutor, *, wait: bool = False) -> None:
        self.clock.time_ms += 20
        if self._commit is not None and (wait or self._commit[1].done()):
            self._finish_commit(*self._commit)
        if self._commit is None:
            self._begin_commit(threads)
        if self._job is not None and (wait or self._job[1].done()):
            self._job[1].result()
            self._run_job(self._job[0].finish(), threads)
        elif self._job is None:
            self._run_job(self.logs.next_job(), threads)

    def _begin_commit(self, threads: ThreadPoolExecutor) -> None:
        commit = self.logs.group_commit.begin(hold=self._holds, writes_later=False)
        if commit is not None:
            covered = {topic_id: len(batches) for topic_id, batches in self.waiting.items()}
            self._commit = commit, threads.submit(commit.run), covered

    def _finish_commit(self, commit: Commit, run: "Future[None]", covered: dict[TopicId, int]) -> None:
        run.result()
        self.logs.group_commit.finish(commit)
        self._commit = None
        for topic_id, count in covered.items():
            self.durable[topic_id] += self.waiting[topic_id][:count]
            del self.waiting[topic_id][:count]

    def _run_job(self, job: Job | None, threads: ThreadPoolExecutor) -> None:
        self._job = (job, threads.submit(job.run)) if job is not None else None

    @property
    def is_busy(self) -> bool:
        return self._commit is not None or self._job is not None


def contents(log: Log) -> list[bytes]:
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        batches = list(iter_batches(log.read(offset, 1 << 20, upto_offset=log.end_offset, min_one_batch=True)))
        found += [bytes(batch.data) for batch in batches]
        offset = batches[-1].last_offset + 1
    return found


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_logs_are_what_was_committed_while_threads_write_and_sync_them(tmp_path: Path, seed: int, holds: bool) -> None:
    random = Random(seed)
    partitions = [TopicPartition(f"t{number}", 0) for number in range(8)]
    loop = Loop(tmp_path, {partition: random.randbytes(16) for partition in partitions}, holds=holds)
    with ThreadPoolExecutor(2) as threads:
        for number in range(TURNS):
            for _ in range(random.randint(1, 6)):
                loop.append(random.choice(partitions), random.choice([20, 200, 5_000]))
            if number % 37 == 36:
                loop.recreate(random.choice(partitions), random.randbytes(16))
            loop.turn(threads, wait=number % 5 == 0)
        while loop.is_busy:
            loop.turn(threads, wait=True)

    assert not loop.logs.group_commit.poisoned
    for partition in partitions:
        assert contents(loop.log(partition)) == loop.durable[loop.topics[partition]]
    killed = Loop(tmp_path, dict(loop.topics), holds=holds)  # nobody has stopped the first one
    for partition in partitions:
        assert contents(killed.log(partition)) == loop.durable[loop.topics[partition]]
