"""What segment files hold, batch by batch, for `ottla log dump`.

It reads the files as they are, without a node and without its indexes, and goes no further than the first bytes of a
file that are not a batch: what is wrong there is for `ottla log verify` to say.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.cli.failures import CommandError
from ottla.cli.record_output import json_bytes
from ottla.errors import CorruptBatchError, ProtocolError, StorageError
from ottla.groups import log_format as group_records
from ottla.metadata import records as metadata_records
from ottla.protocol.records import BatchHeader, Record, check_crc, read_records
from ottla.runtime.disk import OsDisk
from ottla.storage.checkpoints import CLEAN_SHUTDOWN
from ottla.storage.journal import DIRECTORY as JOURNAL
from ottla.storage.names import LOG, offset_in_name
from ottla.storage.scan import BatchScan

DECODERS: Mapping[str, Callable[[bytes | None, bytes | None], object]] = {
    "__consumer_offsets": group_records.decode_record,
    "__cluster_metadata": metadata_records.decode_record,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBatch:
    """A batch, and where it stands."""

    file: str
    position: int
    header: BatchHeader
    problem: str
    """What is wrong with it; empty if nothing is."""

    def as_json(self) -> dict[str, Any]:
        header = self.header
        return {
            "file": self.file,
            "position": self.position,
            "size_bytes": header.size_bytes,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "records": header.record_count,
            "leader_epoch": header.leader_epoch,
            "max_timestamp_ms": header.max_timestamp_ms,
            "compression": header.compression.name.lower(),
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "transactional": header.is_transactional,
            "control": header.is_control,
            "problem": self.problem or None,
        }

    def records_json(self) -> Iterator[dict[str, Any]]:
        for record in read_records(self.header.data):
            yield {
                "file": self.file,
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                **json_bytes("key", record.key),
                **json_bytes("value", record.value),
                "headers": [{"name": name, **json_bytes("value", value)} for name, value in record.headers],
                **self._meaning(record),
            }

    def _meaning(self, record: Record) -> dict[str, str]:
        """What a record of the node's own topics says; nothing for those of users."""
        decode = DECODERS.get(os.path.dirname(self.file).rpartition("-")[0])
        if decode is None or self.header.is_control:
            return {}
        try:
            return {"meaning": repr(decode(record.key, record.value))}
        except (ProtocolError, StorageError) as error:
            return {"meaning": f"can't be read: {error}"}


def is_behind_a_journal(path: str) -> bool:
    """Whether these files belong to a node of ours that runs, or has not been stopped in good order."""
    for directory in (Path(path), *Path(path).absolute().parents[:2]):
        if (directory / JOURNAL).is_dir():
            return not (directory / CLEAN_SHUTDOWN).exists()
    return False


def segment_files(path: str, topic: str | None) -> list[Path]:
    """The segments at `path`: a file, the directory of a partition, or a data directory; of one topic, if named."""
    root = Path(path)
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise CommandError(f"There is no file or directory {path}")
    found = [file for file in (*root.glob(f"*{LOG}"), *root.glob(f"*/*{LOG}")) if _is_segment(file, topic)]
    if not found:
        raise CommandError(f"There are no segments in {path}" + (f" of {topic}" if topic else ""))
    return sorted(found, key=lambda file: (file.parent.name, file.name))


def partition_directories(data_dir: str, topic: str | None) -> list[str]:
    """The names of the directories that hold partitions; of one topic, if named."""
    if not Path(data_dir).is_dir():
        raise CommandError(f"There is no directory {data_dir}")
    found = [entry.name for entry in Path(data_dir).iterdir() if entry.is_dir() and _is_partition(entry.name, topic)]
    if not found:
        raise CommandError(f"There are no partitions in {data_dir}" + (f" of {topic}" if topic else ""))
    return sorted(found, key=lambda name: (name.rpartition("-")[0], int(name.rpartition("-")[2])))


def _is_partition(directory: str, topic: str | None) -> bool:
    name, dash, partition = directory.rpartition("-")
    return bool(dash) and partition.isdigit() and (topic is None or name == topic)


def _is_segment(file: Path, topic: str | None) -> bool:
    return offset_in_name(file.name, LOG) is not None and (topic is None or _is_partition(file.parent.name, topic))


def batches(file: Path) -> Iterator[FoundBatch]:
    """All batches of a segment. CommandError where its bytes are no batch."""
    disk = OsDisk(str(file.parent), open_files_max=1)
    segment = disk.open(file.name)
    name = os.path.join(file.parent.name, file.name)
    try:
        scan = BatchScan(segment, 0, segment.size())
        for view in scan:
            header = BatchHeader.parse(bytes(view))
            yield FoundBatch(file=name, position=scan.position, header=header, problem=_problem(header))
        if scan.problem:
            raise CommandError(f"{name}: {scan.problem}", hint="`ottla log verify` tells more.")
    finally:
        segment.close()


def _problem(header: BatchHeader) -> str:
    try:
        check_crc(header)
    except CorruptBatchError as error:
        return str(error)
    return ""
