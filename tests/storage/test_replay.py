import pytest

from ottla.storage.log import Origin
from ottla.storage.producer_state import ProducerState
from ottla.storage.replay import producers_at, replay_batch
from ottla.storage.snapshots import Snapshots
from ottla.testing.disk import CrashingDisk
from tests.storage.batches import DIRECTORY, NOW_MS, append, batch, marker, open_log


def test_a_batch_without_a_producer_says_nothing() -> None:
    producers = ProducerState()

    assert replay_batch(batch(b"a"), producers) is None
    assert producers.active() == []


def test_a_marker_ends_the_transaction_that_was_replayed() -> None:
    producers = ProducerState()
    replay_batch(batch(b"a", producer_id=7, epoch=0, sequence=0, transactional=True, base_offset=4), producers)

    ended = replay_batch(marker(commits=False, producer_id=7), producers)

    assert ended is not None
    assert (ended.producer_id, ended.first_offset, ended.aborted) == (7, 4, True)


@pytest.mark.parametrize("upto", range(8))
@pytest.mark.parametrize("with_snapshots", [True, False])
def test_the_state_at_an_offset_is_the_same_with_and_without_snapshots(upto: int, with_snapshots: bool) -> None:
    disk = CrashingDisk()
    log = open_log(disk, segment_bytes=250)
    for sequence in range(6):
        append(log, batch(bytes(50), producer_id=7 + sequence % 2, epoch=0, sequence=sequence // 2))
    append(log, marker(commits=True, producer_id=7), origin=Origin.COORDINATOR)
    snapshots = log.snapshots if with_snapshots else Snapshots(disk, DIRECTORY, [])

    producers = producers_at(log.segments, snapshots, upto)

    expected = ProducerState()
    for offset in range(min(upto, 6)):
        expected.replay(7 + offset % 2, 0, offset // 2, offset, offset, timestamp_ms=NOW_MS, transactional=False)
    if upto == 7:
        replay_batch(marker(commits=True, producer_id=7), expected)
    assert producers.snapshot() == expected.snapshot()
