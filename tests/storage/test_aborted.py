"""What readers of committed records are told of aborted transactions: all that they must know, and not much more."""

import random
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.records import iter_batches
from ottla.storage.append import Origin
from ottla.storage.log import Log
from ottla.storage.scan import end_of_batches
from ottla.storage.txn_index import AbortedTransaction, TxnIndex
from ottla.testing.disk import CrashingDisk
from tests.storage.batches import NOW_MS, batch, marker, open_log

SEGMENT_BYTES = 12_000


class Writers:
    """Producers with transactions of any length that overlap as they like."""

    def __init__(self, log: Log, seed: int, producers: int) -> None:
        self.log = log
        self.dice = random.Random(seed)
        self.sequences = dict.fromkeys(range(producers), 0)
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []

    def step(self) -> None:
        producer_id = self.dice.choice(list(self.sequences))
        if producer_id in self.open and self.dice.random() < 0.4:
            self.end(producer_id, commits=self.dice.random() < 0.5)
        else:
            self.write(producer_id)

    def write(self, producer_id: int) -> None:
        value = bytes(self.dice.randrange(900))
        sequence = self.sequences[producer_id]
        data = batch(value, producer_id=producer_id, epoch=0, sequence=sequence, transactional=True)
        offset = self._append(data, Origin.CLIENT)
        self.sequences[producer_id] += 1
        self.open.setdefault(producer_id, offset)

    def end(self, producer_id: int, *, commits: bool) -> None:
        offset = self._append(marker(commits=commits, producer_id=producer_id), Origin.COORDINATOR)
        first = self.open.pop(producer_id)
        if not commits:
            self.aborted.append((producer_id, first, offset))

    def _append(self, data: bytes, origin: Origin) -> int:
        offset = self.log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS, origin=origin)
        self.log.write_pending()
        return offset

    def end_all(self) -> None:
        for producer_id in list(self.open):
            self.end(producer_id, commits=False)


def reads(log: Log, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < log.end_offset:
        records = log.read(offset, max_bytes, upto_offset=log.end_offset, min_one_batch=True)
        yield offset, records
        offset = end_of_batches(records)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), max_bytes=st.sampled_from([1, 3_000, 20_000, 200_000]), opens_anew=st.booleans())
def test_every_aborted_transaction_among_the_records_is_told_and_few_others(
    seed: int, max_bytes: int, opens_anew: bool
) -> None:
    disk = CrashingDisk(seed=seed)
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    writers = Writers(log, seed, producers=4)
    for _ in range(150):
        writers.step()
    writers.end_all()
    if opens_anew:
        log.sync()
        log.close()
        log = open_log(disk, segment_bytes=SEGMENT_BYTES)

    for offset, records in reads(log, max_bytes):
        end_offset = end_of_batches(records)
        told = {(found.producer_id, found.first_offset) for found in log.aborted_among(records, offset, log.end_offset)}
        wanted = {(who, first) for who, first, last in writers.aborted if last >= offset and first < end_offset}
        # An entry of the index stands for 4 KiB of records, and a bound lies at most three of them further.
        soon = {(who, first) for who, first, _ in writers.aborted if end_offset <= first < end_offset + 200}
        assert wanted <= told <= wanted | soon


def test_later_segments_are_not_looked_at_if_nothing_was_open_when_they_began() -> None:
    disk = CrashingDisk()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    writers = Writers(log, 1, producers=1)
    while len(log.segments) < 30:
        writers.write(0)
        writers.end(0, commits=len(log.segments) % 2 == 0)
    log.sync()
    log.close()
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    records = log.read(0, 20_000, upto_offset=log.end_offset, min_one_batch=True)
    before = disk.counters.reads

    log.aborted_among(records, 0, log.end_offset)

    assert disk.counters.reads - before <= 4  # indexes of the one segment, the snapshot of the next


def test_a_transaction_that_spans_many_segments_is_found_from_each() -> None:
    log = open_log(CrashingDisk(), segment_bytes=SEGMENT_BYTES)
    writers = Writers(log, 1, producers=2)
    writers.write(0)
    while len(log.segments) < 10:
        writers.write(1)
        writers.end(1, commits=True)
    writers.end(0, commits=False)

    for offset, records in reads(log, 5_000):
        assert [found.first_offset for found in log.aborted_among(records, offset, log.end_offset)] == [0]


class Counted(int):
    """An offset that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < other


def test_a_search_looks_at_few_of_many_aborts() -> None:
    """Ten thousand short ones inside of a long one: bisection does not help with those that end after the range."""
    index = TxnIndex(CrashingDisk(), "i")
    for number in range(10_000):
        first = Counted(10 * number + 10)
        index.append(
            AbortedTransaction(producer_id=number, first_offset=first, last_offset=first + 5, last_stable_offset=0)
        )
    index.append(AbortedTransaction(producer_id=-1, first_offset=0, last_offset=200_000, last_stable_offset=200_001))
    Counted.compared = 0

    found, is_complete = index.collect(50_000, 50_100)

    assert [entry.producer_id for entry in found] == [*range(4_999, 5_009), -1]
    assert is_complete
    assert Counted.compared < 500


def test_the_end_of_what_was_read_is_that_of_the_last_whole_batch() -> None:
    data = batch(b"a", b"b") + batch(b"c", base_offset=2)

    assert [end_of_batches(data[:size]) for size in (0, 20, len(data) - 1, len(data))] == [0, 0, 2, 3]
    assert [found.last_offset for found in iter_batches(data)] == [1, 2]
