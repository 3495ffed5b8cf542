import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord

from ottla.errors import CorruptBatchError
from ottla.protocol.control import ControlType, build_end_txn_marker, control_type, read_end_txn_marker
from ottla.protocol.records import BatchHeader, Record, read_records


@pytest.mark.parametrize(
    ("committed", "expected", "aiokafka_marker"),
    [(True, ControlType.COMMIT, COMMIT_MARKER), (False, ControlType.ABORT, ABORT_MARKER)],
)
def test_a_transaction_ends_with_a_marker_that_other_clients_read(
    committed: bool, expected: ControlType, aiokafka_marker: object
) -> None:
    batch = build_end_txn_marker(
        committed=committed, producer_id=7, producer_epoch=2, coordinator_epoch=5, timestamp_ms=1_000, base_offset=40
    )
    header = BatchHeader.parse(batch)
    (record,) = read_records(batch)

    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, -1)
    assert (record.offset, record.timestamp_ms) == (40, 1_000)
    assert control_type(record) is expected
    assert read_end_txn_marker(record).coordinator_epoch == 5
    assert record.key is not None
    assert ControlRecord.parse(record.key) == aiokafka_marker


def test_a_type_of_the_future_is_nothing_that_we_know() -> None:
    assert control_type(Record(key=b"\0\0\0\x63")) is None


def test_a_control_record_without_a_key_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="key"):
        control_type(Record(value=b""))
