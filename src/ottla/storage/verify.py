"""Is every byte of a partition what it should be? The checks behind `ottla log verify`.

All of it is read: each batch's checksum and offsets, each index entry against the batch that it points at, snapshots
and leader epochs. Nothing is repaired and nothing is written, so it can be asked of a directory of Kafka's as well; the
log must not be in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import CorruptLogError
from ottla.protocol.records import BODY_AT, BatchHeader, crc32c
from ottla.storage import names, offset_index, time_index, txn_index
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.producer_snapshot import decode_snapshot
from ottla.storage.scan import BatchScan
from ottla.values import value

if TYPE_CHECKING:
    from ottla.ports import Disk


@value
class Problem:
    """Something that is not as it should be."""

    file: str
    position: int | None
    """The byte where it is, if it is at one."""
    sentence: str

    def __str__(self) -> str:
        where = self.file if self.position is None else f"{self.file} at {self.position}"
        return f"{where}: {self.sentence}"


@value
class VerifyReport:
    """What a partition's directory holds, and what is wrong with it."""

    directory: str
    segments: int
    batches: int
    records: int
    size_bytes: int
    start_offset: int
    end_offset: int
    problems: tuple[Problem, ...]

    @property
    def is_sound(self) -> bool:
        return not self.problems


def verify_log_directory(disk: Disk, directory: str) -> VerifyReport:
    """Check all files of one partition."""
    return _Verification(disk, directory).run()


class _Verification:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._problems: list[Problem] = []
        self._batches = self._records = self._size_bytes = 0
        self._end_offset = 0
        self._leader_epoch = -1

    def run(self) -> VerifyReport:
        found = self._disk.list(self._directory)
        bases = [base for name in found if (base := names.offset_in_name(name, names.LOG)) is not None]
        self._end_offset = start_offset = bases[0] if bases else 0
        for base in bases:
            self._check_segment(base, is_last=base == bases[-1])
        for name in found:
            self._check_other(name, bases)
        return VerifyReport(
            directory=self._directory,
            segments=len(bases),
            batches=self._batches,
            records=self._records,
            size_bytes=self._size_bytes,
            start_offset=start_offset,
            end_offset=self._end_offset,
            problems=tuple(self._problems),
        )

    def _report(self, name: str, position: int | None, sentence: str) -> None:
        self._problems.append(Problem(file=f"{self._directory}/{name}", position=position, sentence=sentence))

    def _read(self, name: str) -> bytes:
        file = self._disk.open(f"{self._directory}/{name}")
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    def _read_if_there(self, name: str) -> bytes | None:
        return self._read(name) if self._disk.exists(f"{self._directory}/{name}") else None

    # Segments

    def _check_segment(self, base: int, *, is_last: bool) -> None:
        name = names.file_name(base, names.LOG)
        if base < self._end_offset:
            self._report(name, None, f"the segment before it ends at {self._end_offset}")
        check = _SegmentCheck(self, base, is_last=is_last)
        file = self._disk.open(f"{self._directory}/{name}")
        size = file.size()
        self._size_bytes += size
        scan = BatchScan(file, 0, size)
        for view in scan:
            batch = BatchHeader.parse(view)
            self._check_batch(name, scan.position, base, batch)
            check.see(scan.position, batch)
        file.close()
        if scan.problem:
            self._report(
                name, scan.position, f"{scan.problem}; {size - scan.position} bytes from there on are no batches"
            )
        self._end_offset = max(self._end_offset, base)
        check.finish()

    def _check_batch(self, name: str, position: int, base: int, batch: BatchHeader) -> None:
        self._batches += 1
        self._records += batch.record_count
        if crc32c(bytes(batch.data[BODY_AT:])) != batch.crc:
            self._report(name, position, f"the checksum of the batch at offset {batch.base_offset} is wrong")
        if batch.last_offset < batch.base_offset or batch.base_offset < max(self._end_offset, base):
            offsets = f"{batch.base_offset} to {batch.last_offset}"
            self._report(name, position, f"offsets {offsets} do not follow {self._end_offset - 1}")
        if batch.last_offset - base > offset_index.RELATIVE_OFFSET_MAX:
            self._report(name, position, f"offset {batch.last_offset} is too far from the segment's base")
        if batch.leader_epoch < self._leader_epoch:
            self._report(name, position, f"leader epoch {batch.leader_epoch} after {self._leader_epoch}")
        self._leader_epoch = max(self._leader_epoch, batch.leader_epoch)
        self._end_offset = max(self._end_offset, batch.last_offset + 1)

    # All else

    def _check_other(self, name: str, bases: list[int]) -> None:
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX, names.TXN_INDEX):
            base = names.offset_in_name(name, suffix)
            if base is not None and base not in bases:
                self._report(name, None, "there is no segment for this index")
        try:
            if names.offset_in_name(name, names.SNAPSHOT) is not None:
                decode_snapshot(self._read(name))
            elif name == names.LEADER_EPOCHS:
                self._check_epochs(name)
        except CorruptLogError as error:
            self._report(name, None, str(error))

    def _check_epochs(self, name: str) -> None:
        epochs = LeaderEpochs.decode(self._read(name))
        for epoch, start_offset in epochs.entries():
            if start_offset > self._end_offset:
                self._report(name, None, f"epoch {epoch} begins at {start_offset}, the log ends at {self._end_offset}")


class _SegmentCheck:
    """The indexes of one segment, held against its batches as they pass by."""

    def __init__(self, verification: _Verification, base: int, *, is_last: bool) -> None:
        self._verification = verification
        self._base = base
        self._is_last = is_last
        self._positions = self._load_offsets()
        self._times = self._load_times()
        self._aborted = {
            entry.last_offset
            for entry in txn_index.read_entries(self._load(names.TXN_INDEX, txn_index.ENTRY_BYTES) or b"")
        }
        self._largest_ms = time_index.NO_TIMESTAMP
        self._last_time_ms = max(self._times.values(), default=time_index.NO_TIMESTAMP)

    def see(self, position: int, batch: BatchHeader) -> None:
        indexed = self._positions.pop(position, None)
        if indexed not in (None, batch.last_offset):
            self._report(names.OFFSET_INDEX, None, f"{indexed} is not the last offset of the batch at {position}")
        if batch.max_timestamp_ms > self._largest_ms:
            self._largest_ms = batch.max_timestamp_ms
        timestamp_ms = self._times.pop(batch.last_offset, None)
        if timestamp_ms not in (None, self._largest_ms):
            what = f"{timestamp_ms} is not the largest timestamp up to offset {batch.last_offset}"
            self._report(names.TIME_INDEX, None, f"{what}, which is {self._largest_ms}")
        if batch.is_control:
            self._aborted.discard(batch.base_offset)

    def finish(self) -> None:
        for position, offset in self._positions.items():
            self._report(names.OFFSET_INDEX, None, f"no batch with last offset {offset} starts at {position}")
        for offset, timestamp_ms in self._times.items():
            self._report(names.TIME_INDEX, None, f"no batch ends at offset {offset}, given for time {timestamp_ms}")
        for offset in self._aborted:
            self._report(names.TXN_INDEX, None, f"there is no transaction marker at offset {offset}")
        if not self._is_last and self._last_time_ms != self._largest_ms:
            self._report(
                names.TIME_INDEX, None, f"the largest timestamp of the segment, {self._largest_ms}, is missing"
            )

    def _report(self, suffix: str, position: int | None, sentence: str) -> None:
        self._verification._report(names.file_name(self._base, suffix), position, sentence)

    def _load(self, suffix: str, entry_bytes: int) -> bytes | None:
        data = self._verification._read_if_there(names.file_name(self._base, suffix))
        if data is not None and len(data) % entry_bytes:
            self._report(suffix, len(data) - len(data) % entry_bytes, "the last entry is not whole")
        return data

    def _load_offsets(self) -> dict[int, int]:
        data = self._load(names.OFFSET_INDEX, offset_index.ENTRY_BYTES)
        if data is None and not self._is_last:
            self._report(names.OFFSET_INDEX, None, "the index is missing")
        before = offset_index.OffsetEntry(-1, -1)
        positions = {}
        for number, entry in enumerate(offset_index.read_entries(data or b"", self._base)):
            if entry.offset <= before.offset or entry.position <= before.position:
                self._report(names.OFFSET_INDEX, number * offset_index.ENTRY_BYTES, f"{entry} is out of order")
            before = entry
            positions[entry.position] = entry.offset
        return positions

    def _load_times(self) -> dict[int, int]:
        data = self._load(names.TIME_INDEX, time_index.ENTRY_BYTES)
        if data is None and not self._is_last:
            self._report(names.TIME_INDEX, None, "the index is missing")
        before = time_index.TimeEntry(time_index.NO_TIMESTAMP, -1)
        times = {}
        for number, entry in enumerate(time_index.read_entries(data or b"", self._base)):
            if entry.timestamp_ms <= before.timestamp_ms or entry.offset < before.offset:
                self._report(names.TIME_INDEX, number * time_index.ENTRY_BYTES, f"{entry} is out of order")
            before = entry
            times[entry.offset] = entry.timestamp_ms
        return times
