import pytest

from ottla.storage import scan as scan_module
from ottla.storage.scan import BatchScan
from ottla.testing.disk import CrashingDisk
from tests.storage.batches import batch


def scan_of(data: bytes, position: int = 0) -> BatchScan:
    file = CrashingDisk().open("f", create=True)
    file.pwritev((data,), 0)
    return BatchScan(file, position, len(data))


BATCHES = [batch(b"a"), batch(b"b" * 300), batch(b"c", b"d")]


def test_batches_come_one_after_the_other_with_their_positions() -> None:
    scan = scan_of(b"".join(BATCHES))

    assert [(scan.position, bytes(found)) for found in scan] == [
        (0, BATCHES[0]),
        (len(BATCHES[0]), BATCHES[1]),
        (len(BATCHES[0]) + len(BATCHES[1]), BATCHES[2]),
    ]
    assert scan.problem == ""


def test_a_scan_may_start_later() -> None:
    assert [bytes(found) for found in scan_of(b"".join(BATCHES), len(BATCHES[0]))] == BATCHES[1:]


@pytest.mark.parametrize("piece_bytes", [1, 61, 62, 100, 367, 368, 1000])
def test_the_size_of_the_pieces_that_are_read_does_not_matter(
    piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "PIECE_BYTES", max(piece_bytes, 61))

    scan = scan_of(b"".join(BATCHES))

    assert [bytes(found) for found in scan] == BATCHES
    assert scan.problem == ""


@pytest.mark.parametrize("cut", [1, 10, 60, 61, 200])
def test_a_torn_tail_ends_the_scan(cut: int) -> None:
    torn = BATCHES[0] + BATCHES[1][:cut]
    scan = scan_of(torn)

    assert [bytes(found) for found in scan] == BATCHES[:1]
    assert scan.position == len(BATCHES[0])
    assert "not whole" in scan.problem


@pytest.mark.parametrize(
    ("at", "value"),
    [(8, b"\xff\xff\xff\xff"), (8, b"\0\0\0\x30"), (16, b"\1"), (16, b"\3")],
    ids=["negative length", "length too short", "format 1", "format 3"],
)
def test_what_is_no_batch_ends_the_scan(at: int, value: bytes) -> None:
    bad = bytearray(BATCHES[1])
    bad[at : at + len(value)] = value
    scan = scan_of(BATCHES[0] + bad + BATCHES[2])

    assert [bytes(found) for found in scan] == BATCHES[:1]
    assert "no record batch" in scan.problem


def test_zeros_are_no_batch() -> None:
    scan = scan_of(BATCHES[0] + bytes(500))

    assert len(list(scan)) == 1
    assert scan.position == len(BATCHES[0])
    assert scan.problem


def test_a_file_that_is_shorter_than_it_should_be_ends_the_scan() -> None:
    file = CrashingDisk().open("f", create=True)
    file.pwritev((BATCHES[0],), 0)
    scan = BatchScan(file, 0, 10_000)

    assert len(list(scan)) == 1
    assert scan.problem


def test_a_length_larger_than_the_file_does_not_make_it_read_that_much() -> None:
    bad = bytearray(BATCHES[0])
    bad[8:12] = (2**31 - 1).to_bytes(4)
    scan = scan_of(bytes(bad))

    assert list(scan) == []
    assert "not whole" in scan.problem
