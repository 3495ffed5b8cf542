"""What waits for a partition's high watermark, and who is told what."""

from typing import Any

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.image import PartitionImage
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.testing.disk import CrashingDisk
from tests.storage.batches import NOW_MS, batch, open_log


class Told:
    """What those who wait were told, in order."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.heard: list[tuple[int, ErrorCode | None]] = []

    def wait_for(self, offset: int) -> None:
        self._partition.when_committed(offset, lambda error: self.heard.append((offset, error.code if error else None)))


def written(*, end: int = 10) -> Log:
    """A log of which nothing is durable yet."""
    log = open_log(CrashingDisk())
    write(log, end)
    return log


def write(log: Log, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(batch(), leader_epoch=1, now_ms=NOW_MS)
    log.write_pending()


def led(*, durable: int = 0, end: int = 10) -> tuple[Partition, Log]:
    log = written(end=end)
    log.mark_durable(durable)
    return Partition(topic="t", topic_id=b"t" * 16, index=0, leader_epoch=1, log=log), log


def test_who_waits_for_what_is_committed_is_told_at_once() -> None:
    partition, _ = led(durable=5)
    told = Told(partition)
    told.wait_for(5)
    assert told.heard == [(5, None)]


def test_waiting_is_in_the_order_of_offsets() -> None:
    partition, log = led()
    told = Told(partition)
    for offset in (3, 1, 2, 4):
        told.wait_for(offset)
    log.mark_durable(3)
    partition.on_durable(100)
    assert told.heard == [(1, None), (2, None), (3, None)]


def test_a_commit_that_failed_is_told_to_those_above_it() -> None:
    partition, log = led(end=10)
    told = Told(partition)
    told.wait_for(2)
    told.wait_for(5)
    assert log.truncate_to(2) == 2
    partition.on_failed(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR))
    assert told.heard == [(5, ErrorCode.KAFKA_STORAGE_ERROR)]


def test_when_leadership_ends_nobody_waits_any_more() -> None:
    partition, log = led()
    told = Told(partition)
    told.wait_for(2)
    partition.end()
    log.mark_durable(3)
    partition.on_durable(100)
    assert told.heard == [(2, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_who_waits_to_read_is_woken_whenever_more_is_committed_and_told_of_every_byte_once() -> None:
    """Followers may get there in steps."""
    log = written(end=10)
    image = PartitionImage(leader=1, leader_epoch=1, replicas=(1, 2), isr=(1, 2), partition_epoch=0)
    partition = Partition(topic="t", topic_id=b"t" * 16, index=0, leader_epoch=1, log=log, node_id=1, image=image)
    reader = Reader()
    partition.waiters[reader] = None
    log.mark_durable(10)
    partition.on_durable(1_000)
    assert reader.told == []
    for offset in (4, 9, 10):
        partition.follower_fetched(partition.followers[2], 1, offset, 0)
    assert reader.told == [400, 500, 100]
    write(log, 3)
    log.mark_durable(13)
    partition.on_durable(2)
    for offset in (11, 12, 13):
        partition.follower_fetched(partition.followers[2], 1, offset, 0)
    assert all(size_bytes > 0 for size_bytes in reader.told[3:])
    assert len(reader.told) == 6


class Reader:
    def __init__(self) -> None:
        self.told: list[int] = []

    def more(self, _partition: Any, size_bytes: int) -> None:
        self.told.append(size_bytes)

    def gone(self, _partition: Any) -> None: ...
