"""The loops over records find what a plain reader finds, whatever the sizes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptBatchError
from ottla.protocol.record import Record, encode_record, parse_records
from ottla.storage.compaction_records import (
    KEY_BYTES_MAX,
    all_records,
    key_hash,
    note_keys,
    note_keys_with_gaps,
    pick,
    pick_offsets,
)

BASE = 1_000


def encoded(records: list[Record]) -> bytes:
    return b"".join(encode_record(record, delta, record.timestamp_ms) for delta, record in enumerate(records))


def expected(records: list[Record]) -> dict[bytes, int]:
    known = {}
    for offset, record in enumerate(records, BASE):
        if record.key is not None:
            known[key_hash(record.key) if len(record.key) > KEY_BYTES_MAX else record.key] = offset
    return known


def noted(data: bytes, count: int) -> dict[bytes, int]:
    offsets: dict[bytes, int] = {}
    note_keys(data, count, BASE, offsets)
    return offsets


sizes = st.sampled_from([0, 1, 12, 32, 33, 63, 64, 200])
records = st.builds(
    Record,
    key=st.one_of(st.none(), st.builds(lambda size, letter: letter * size, sizes, st.sampled_from([b"a", b"b"]))),
    value=st.one_of(st.none(), st.binary(max_size=10), st.just(bytes(20_000))),
    headers=st.just(()),
    timestamp_ms=st.sampled_from([0, 5, 63, 64, 9_000, -1, 1 << 40]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(records, min_size=1, max_size=80))
def test_keys_are_found_in_any_mixture(batch: list[Record]) -> None:
    data = encoded(batch)
    with_gaps: dict[bytes, int] = {}
    note_keys_with_gaps(data, len(batch), BASE, 0, with_gaps)

    assert noted(data, len(batch)) == with_gaps == expected(batch)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), sizes, st.integers(0, 300), st.sampled_from([0, 1, 100, 70_000]), st.data())
def test_keys_are_found_in_records_that_are_alike_but_for_one(
    count: int, key_bytes: int, value_bytes: int, step_ms: int, data: st.DataObject
) -> None:
    batch = [
        Record(key=b"%03d" % number + bytes(key_bytes), value=bytes(value_bytes), timestamp_ms=step_ms * number)
        for number in range(count)
    ]
    odd = data.draw(st.integers(0, count))
    if odd < count:
        # As long as the others, with a key that is longer by what the value is shorter; or just another size.
        taken = data.draw(st.integers(-3, min(3, value_bytes)))
        record = batch[odd]
        assert record.key is not None
        key = record.key[: len(record.key) + taken] + b"x" * max(taken, 0)
        batch[odd] = record._replace(key=key, value=bytes(value_bytes - taken))

    assert noted(encoded(batch), count) == expected(batch)


@pytest.mark.parametrize("count", [64, 8_192, 8_300])
def test_offsets_of_any_width_are_stepped_over(count: int) -> None:
    batch = [Record(key=b"%05d" % number, value=b"v", timestamp_ms=0) for number in range(count)]

    assert noted(encoded(batch), count) == expected(batch)


def test_what_is_picked_is_what_was_there() -> None:
    batch = [Record(key=b"k%d" % (n % 4), value=None if n == 9 else b"v" * n, timestamp_ms=n) for n in range(10)]
    data = encoded(batch)
    wanted = {BASE + 3, BASE + 9}

    kept = pick_offsets(data, 10, BASE, wanted)

    assert [(one.timestamp_delta_ms, one.is_tombstone) for one in kept] == [(3, False), (9, True)]
    picked = b"".join(data[one.start : one.end] for one in kept)
    found = list(parse_records(picked, 2, base_offset=BASE, base_timestamp_ms=0, appended_ms=None))
    assert [record.offset for record in found] == sorted(wanted)
    latest = {b"k0": BASE + 8, b"k1": BASE + 9}
    assert [one.timestamp_delta_ms for one in pick(data, 10, BASE, latest, BASE, BASE + 10)] == [8, 9]
    assert [one.timestamp_delta_ms for one in pick(data, 10, BASE, latest, BASE + 2, BASE + 8)] == [8, 9]
    assert len(all_records(data, 10)) == 10


@pytest.mark.parametrize("cut", range(1, 30))
def test_records_that_are_cut_off_are_damage(cut: int) -> None:
    data = encoded([Record(key=b"key", value=bytes(4), timestamp_ms=0) for _ in range(20)])[:-cut]

    for loop in (
        lambda: note_keys(data, 20, 0, {}),
        lambda: note_keys_with_gaps(data, 20, 0, 0, {}),
        lambda: pick_offsets(data, 20, 0, {19}),
        lambda: pick(data, 20, 0, {}, 0, 20),
        lambda: all_records(data, 20),
    ):
        with pytest.raises(CorruptBatchError):
            loop()
