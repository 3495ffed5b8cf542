"""Snapshots of the metadata on disk: `quorum/<end offset>-<epoch>.checkpoint`, as Kafka writes them.

    control batch   snapshot header; here, with the index of the last entry that the snapshot holds, in a record header
    control batch   the voters at that entry
    batches         the records that make the image
    control batch   snapshot footer: a file without one was not written to its end

Offsets say where the log goes on and Raft counts entries, which is why the index has to be in the file as well. The
snapshot of a new cluster holds nothing but the voters that it is founded by; Kafka does the same.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ottla.errors import CorruptLogError, OttlaError
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.protocol.control import ControlType, control_type
from ottla.protocol.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from ottla.protocol.records import BatchHeader, Record, build_batch, check_crc, iter_batches, read_records
from ottla.raft.entry import EntryId, Snapshot
from ottla.raft.voters import VoterSet
from ottla.runtime.quorum_entries import control_record, voters_in, voters_record
from ottla.runtime.quorum_state import DIRECTORY
from ottla.values import value

if TYPE_CHECKING:
    from ottla.ports import Disk

RECORDS_PER_BATCH = 1_000
INDEX_HEADER = "ottla.index"
_INDEX = struct.Struct(">q")
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True, order=True)
class SnapshotId:
    """As Kafka names them: where the log goes on, and the epoch of the last record."""

    end_offset: int
    epoch: int

    @property
    def path(self) -> str:
        return f"{DIRECTORY}/{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


@value
class StoredSnapshot:
    """A snapshot on disk, without the state that it holds."""

    snapshot_id: SnapshotId
    snapshot: Snapshot


def find_snapshots(disk: Disk) -> list[SnapshotId]:
    """The oldest first."""
    matches = (_NAME.fullmatch(name) for name in disk.list(DIRECTORY))
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in matches if match is not None)


# Writing


def snapshot_batches(snapshot: Snapshot, records: Iterable[MetadataRecord]) -> Iterator[bytes]:
    """The file, in pieces: one at a time, since encoding all of a large image takes long."""
    offset, epoch = 0, snapshot.last.term
    header = control_record(ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord())
    header = header._replace(headers=((INDEX_HEADER, _INDEX.pack(snapshot.last.index)),))
    voters = control_record(ControlType.KRAFT_VOTERS, voters_record(snapshot.voters))
    for control in (header, voters):
        yield build_batch([control], base_offset=offset, leader_epoch=epoch, control=True)
        offset += 1
    left = iter(records)
    while chunk := [
        Record(value=encode_record(record)[1], timestamp_ms=0) for record in islice(left, RECORDS_PER_BATCH)
    ]:
        yield build_batch(chunk, base_offset=offset, leader_epoch=epoch)
        offset += len(chunk)
    footer = control_record(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord())
    yield build_batch([footer], base_offset=offset, leader_epoch=epoch, control=True)


# Reading


def read_description(disk: Disk, snapshot_id: SnapshotId) -> StoredSnapshot:
    """Which entry it ends with, and the voters. CorruptLogError if the file is not whole."""
    header, voters, *_, footer = _batches(disk, snapshot_id)
    if _control(footer, snapshot_id)[0] is not ControlType.SNAPSHOT_FOOTER:
        raise _corrupt(snapshot_id, "it has no end")
    return _described(snapshot_id, header, voters)


def _described(snapshot_id: SnapshotId, header: BatchHeader, voters: BatchHeader) -> StoredSnapshot:
    kind, record = _control(header, snapshot_id)
    indexes = [value for name, value in record.headers if name == INDEX_HEADER and value is not None]
    if kind is not ControlType.SNAPSHOT_HEADER or [len(index) for index in indexes] != [_INDEX.size]:
        raise _corrupt(snapshot_id, "it does not say which entry it ends with")
    last = EntryId(_INDEX.unpack(indexes[0])[0], snapshot_id.epoch)
    return StoredSnapshot(snapshot_id=snapshot_id, snapshot=Snapshot(last=last, voters=_voters(voters, snapshot_id)))


def _voters(batch: BatchHeader, snapshot_id: SnapshotId) -> VoterSet:
    kind, record = _control(batch, snapshot_id)
    if kind is not ControlType.KRAFT_VOTERS:
        raise _corrupt(snapshot_id, "it does not name the voters")
    return voters_in(record)


def _control(batch: BatchHeader, snapshot_id: SnapshotId) -> tuple[ControlType | None, Record]:
    if not batch.is_control:
        raise _corrupt(snapshot_id, "a control batch is missing")
    record = next(iter(read_records(batch.data)))
    return control_type(record), record


def read_state(disk: Disk, snapshot_id: SnapshotId) -> Iterator[MetadataRecord]:
    """The records that make the image."""
    for batch in _batches(disk, snapshot_id):
        if not batch.is_control:
            for record in read_records(batch.data):
                yield decode_record(record.key, record.value)


def _batches(disk: Disk, snapshot_id: SnapshotId) -> Sequence[BatchHeader]:
    file = disk.open(snapshot_id.path)
    data = file.pread(file.size(), 0)
    file.close()
    try:
        batches = list(iter_batches(data))
        for batch in batches:
            check_crc(batch)
    except OttlaError as error:
        raise _corrupt(snapshot_id, str(error)) from error
    if len(batches) < 3 or sum(batch.size_bytes for batch in batches) != len(data):
        raise _corrupt(snapshot_id, "it is cut short")
    return batches


def _corrupt(snapshot_id: SnapshotId, why: str) -> CorruptLogError:
    return CorruptLogError(f"{snapshot_id.path} is not a whole snapshot of the metadata: {why}")
