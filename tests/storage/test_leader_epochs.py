import pytest

from ottla.errors import CorruptLogError
from ottla.storage.leader_epochs import LeaderEpochs


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    return epochs


def test_the_file_is_kafkas_checkpoint_format() -> None:
    assert epochs_of((0, 0), (3, 120)).encode() == b"0\n2\n0 0\n3 120\n"


def test_the_file_is_read_back() -> None:
    decoded = LeaderEpochs.decode(b"0\n2\n0 0\n3 120\n")

    assert decoded.entries() == [(0, 0), (3, 120)]
    assert not decoded.changed


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0 x\n", b"0\n1\n0 1 2\n", b"\xff\xfe", b"0\n"]
)
def test_a_damaged_file_is_not_taken_for_a_shorter_one(data: bytes) -> None:
    with pytest.raises(CorruptLogError):
        LeaderEpochs.decode(data)


def test_an_epoch_begins_once() -> None:
    epochs = epochs_of((1, 10))
    epochs.changed = False

    epochs.assign(1, 20)

    assert epochs.entries() == [(1, 10)]
    assert not epochs.changed


def test_a_new_epoch_removes_those_that_contradict_it() -> None:
    assert epochs_of((1, 10), (2, 20), (4, 30), (3, 25)).entries() == [(1, 10), (2, 20), (3, 25)]


def test_an_epoch_that_began_where_nothing_was_written_is_replaced() -> None:
    assert epochs_of((1, 10), (2, 10)).entries() == [(2, 10)]


def test_batches_without_an_epoch_say_nothing() -> None:
    assert epochs_of((-1, 0)).entries() == []


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # older than all that is known: go on from our first
        (1, (1, 20)),
        (2, (1, 20)),  # between two: the older one, and where the next began
        (3, (3, 30)),
        (5, (5, 99)),  # the latest ends where the log ends
        (6, (-1, -1)),  # a leader that we have never heard of
    ],
)
def test_where_an_epoch_ended(asked: int, answer: tuple[int, int]) -> None:
    assert epochs_of((1, 10), (3, 20), (5, 30)).end_offset_for(asked, 99) == answer


def test_an_empty_history_knows_no_end() -> None:
    assert LeaderEpochs().end_offset_for(0, 99) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 1), (19, 1), (20, 3), (1000, 3)])
def test_which_epoch_wrote_an_offset(offset: int, epoch: int) -> None:
    assert epochs_of((1, 10), (3, 20)).epoch_at(offset) == epoch


@pytest.mark.parametrize(
    ("end_offset", "left"),
    [(0, []), (10, []), (11, [(1, 10)]), (20, [(1, 10)]), (21, [(1, 10), (3, 20)])],
)
def test_cutting_the_end_of_the_log_forgets_the_epochs_that_began_there(
    end_offset: int, left: list[tuple[int, int]]
) -> None:
    epochs = epochs_of((1, 10), (3, 20))

    epochs.truncate_from_end(end_offset)

    assert epochs.entries() == left


@pytest.mark.parametrize(
    ("start_offset", "left"),
    [(5, [(1, 10), (3, 20)]), (10, [(1, 10), (3, 20)]), (15, [(1, 15), (3, 20)]), (20, [(3, 20)]), (25, [(3, 25)])],
)
def test_cutting_the_start_of_the_log_moves_the_first_epoch(start_offset: int, left: list[tuple[int, int]]) -> None:
    epochs = epochs_of((1, 10), (3, 20))

    epochs.truncate_from_start(start_offset)

    assert epochs.entries() == left
