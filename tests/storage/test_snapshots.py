import pytest

from ottla.storage.producer_state import ProducerState
from ottla.storage.snapshots import Snapshots
from ottla.testing.disk import CrashingDisk


@pytest.fixture
def disk() -> CrashingDisk:
    disk = CrashingDisk()
    disk.make_directory("t-0")
    return disk


def state(last_sequence: int) -> ProducerState:
    producers = ProducerState()
    producers.append(7, 0, last_sequence, 1, 0, 0, False, True)
    return producers


def snapshots(disk: CrashingDisk, *offsets: int) -> Snapshots:
    """The one at each offset tells of that sequence number."""
    made = Snapshots(disk, "t-0", [])
    for offset in offsets:
        made.write(offset, state(offset))
    return made


def loaded(found: tuple[int, ProducerState] | None) -> tuple[int, int] | None:
    return found and (found[0], found[1].producers[7].last_sequence)


@pytest.mark.parametrize(
    ("upto", "result"), [(9, None), (10, (10, 10)), (19, (10, 10)), (20, (20, 20)), (99, (30, 30))]
)
def test_the_latest_that_is_not_beyond_is_loaded(disk: CrashingDisk, upto: int, result: tuple[int, int] | None) -> None:
    assert loaded(snapshots(disk, 10, 20, 30).load(upto)) == result


def test_an_unusable_one_is_removed_and_the_one_before_it_is_taken(disk: CrashingDisk) -> None:
    made = snapshots(disk, 10, 20)
    disk.open(made.path(20)).truncate(12)

    assert loaded(made.load(99)) == (10, 10)
    assert made.offsets == [10]
    assert not disk.exists(made.path(20))


def test_one_that_is_not_there_is_passed_over(disk: CrashingDisk) -> None:
    made = snapshots(disk, 10, 20)
    disk.remove(made.path(20))

    assert loaded(made.load(99)) == (10, 10)


def test_those_beyond_the_end_are_removed_and_that_is_told(disk: CrashingDisk) -> None:
    made = snapshots(disk, 10, 20, 30)

    assert not made.remove_after(30)
    assert made.remove_after(10)
    assert made.offsets == [10]


def test_those_of_segments_and_the_latest_are_kept(disk: CrashingDisk) -> None:
    made = snapshots(disk, 10, 15, 20, 25, 30)

    made.remove_superseded({10, 20})

    assert made.offsets == [10, 20, 30]


def test_writing_one_again_replaces_it(disk: CrashingDisk) -> None:
    made = snapshots(disk, 10)

    made.write(10, ProducerState())

    assert made.offsets == [10]
    found = made.load(10)
    assert found is not None
    assert found[1].producers == {}


def test_what_was_written_is_to_be_synced_once(disk: CrashingDisk) -> None:
    made = snapshots(disk, 10, 20)

    assert len(made.take_unsynced()) == 2
    assert made.take_unsynced() == []
