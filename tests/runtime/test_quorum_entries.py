"""Entries of Raft as batches of the metadata log: both ways, and the same on every node."""

import pytest

from ottla.errors import CorruptLogError
from ottla.protocol.control import ControlType
from ottla.protocol.messages.control_records import KRaftVersionRecord
from ottla.protocol.records import BatchHeader, read_records
from ottla.raft.entry import Entry, EntryKind
from ottla.raft.voters import Voter, VoterSet
from ottla.runtime.quorum_entries import batch_of, control_batch, data_batch, entry_of

VOTERS = VoterSet((Voter(1, bytes(range(16))), Voter(7)))


def there_and_back(entry: Entry) -> Entry:
    return entry_of(BatchHeader.parse(batch_of(entry)), entry.index)


def test_a_decision_is_one_batch_with_the_term_as_its_epoch() -> None:
    data = data_batch([(None, b"one"), (None, b"two")], base_offset=40, term=3, now_ms=1_000)
    batch = BatchHeader.parse(data)
    assert (batch.base_offset, batch.leader_epoch, batch.record_count) == (40, 3, 2)
    assert [record.value for record in read_records(data)] == [b"one", b"two"]
    entry = Entry(index=5, term=3, data=data)
    assert there_and_back(entry) == entry


@pytest.mark.parametrize(
    "entry",
    [
        Entry(index=9, term=-1, kind=EntryKind.NOOP),
        Entry(index=9, term=-1, kind=EntryKind.VOTERS, data=VOTERS.encode()),
    ],
)
def test_what_the_quorum_says_to_itself_is_a_control_batch(entry: Entry) -> None:
    batch = BatchHeader.parse(batch_of(entry))
    assert batch.is_control
    assert batch.record_count == 1
    assert there_and_back(entry) == entry
    assert batch_of(entry) == batch_of(entry)


def test_a_control_batch_that_no_quorum_writes_is_an_error() -> None:
    batch = control_batch(ControlType.KRAFT_VERSION, KRaftVersionRecord())
    with pytest.raises(CorruptLogError, match="control batch"):
        entry_of(BatchHeader.parse(batch), 1)
