"""Raft's entries as record batches of the metadata log, and back.

One entry is one batch. Its leader epoch is the entry's term; what the quorum says to itself is in control batches, as
Kafka has them: a new leader's first entry is a leader change, a change of the voters a set of voters. A batch is the
same, byte for byte, on every node: so a control batch has no timestamp, and a leader change names no leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import CorruptLogError, OttlaError
from ottla.protocol.codec import decode, encode
from ottla.protocol.control import ControlType, control_type
from ottla.protocol.messages.control_records import (
    ControlRecordTypeSchema,
    KRaftVersionFeature,
    LeaderChangeMessage,
    VotersRecord,
    VotersRecordVoter,
)
from ottla.protocol.records import BatchHeader, Record, build_batch, read_records
from ottla.protocol.versioned import encode_with_version
from ottla.raft.entry import Entry, EntryKind
from ottla.raft.voters import Voter, VoterSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.schema import Data

NO_TIMESTAMP = -1
NOBODY = -1
KRAFT_VERSION_MAX = 1


def data_batch(
    pairs: Sequence[tuple[bytes | None, bytes | None]], *, base_offset: int, term: int, now_ms: int
) -> bytes:
    """The data of an entry: the records of one decision, as they will stand in every node's log."""
    records = [Record(timestamp_ms=now_ms, key=key, value=value, headers=()) for key, value in pairs]
    return build_batch(records, base_offset=base_offset, leader_epoch=term)


def batch_of(entry: Entry) -> bytes:
    match entry.kind:
        case EntryKind.DATA:
            return entry.data
        case EntryKind.NOOP:
            return control_batch(ControlType.LEADER_CHANGE, LeaderChangeMessage(leader_id=NOBODY))
        case EntryKind.VOTERS:
            return control_batch(ControlType.KRAFT_VOTERS, voters_record(VoterSet.decode(entry.data)))


def control_batch(kind: ControlType, message: Data) -> bytes:
    return build_batch([control_record(kind, message)], control=True)


def control_record(kind: ControlType, message: Data) -> Record:
    return Record(
        key=encode_with_version(ControlRecordTypeSchema(type=kind), 0),
        value=encode(message, 0),
        timestamp_ms=NO_TIMESTAMP,
        headers=(),
    )


def entry_of(batch: BatchHeader, index: int) -> Entry:
    """The entry that a batch of the log is. CorruptLogError if it is none that was ever written."""
    if not batch.is_control:
        return Entry(index=index, term=batch.leader_epoch, data=bytes(batch.data))
    try:
        record = next(iter(read_records(batch.data)))
        kind = control_type(record)
        if kind is ControlType.LEADER_CHANGE:
            return Entry(index=index, term=batch.leader_epoch, kind=EntryKind.NOOP)
        if kind is ControlType.KRAFT_VOTERS:
            voters = voters_in(record)
            return Entry(index=index, term=batch.leader_epoch, kind=EntryKind.VOTERS, data=voters.encode())
    except (OttlaError, StopIteration) as error:
        raise CorruptLogError(f"the control batch at {batch.base_offset} of the metadata log: {error}") from error
    raise CorruptLogError(f"the metadata log has a control batch of type {kind} at {batch.base_offset}")


def voters_record(voters: VoterSet) -> VotersRecord:
    feature = KRaftVersionFeature(min_supported_version=0, max_supported_version=KRAFT_VERSION_MAX)
    return VotersRecord(
        voters=[
            VotersRecordVoter(
                voter_id=voter.node_id, voter_directory_id=voter.directory_id, k_raft_version_feature=feature
            )
            for voter in voters.voters
        ]
    )


def voters_in(record: Record) -> VoterSet:
    found = decode(VotersRecord, 0, record.value or b"")
    return VoterSet(tuple(sorted(Voter(each.voter_id, each.voter_directory_id) for each in found.voters)))
