"""What compaction keeps and what it lets go, on logs that are then read as consumers and followers read them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config import CleanerConfig
from ottla.errors import CorruptBatchError
from ottla.protocol.records import BATCH_HEADER, Compression, Record, build_batch, iter_batches
from ottla.storage.compaction import DELETE_HORIZON_BIT
from ottla.storage.compaction_map import ENTRY_BYTES
from ottla.storage.log import Log, Origin
from ottla.storage.verify import verify_log_directory
from ottla.testing.disk import CrashingDisk

from .batches import DIRECTORY, NOW_MS, append, marker, open_log
from .compacting import COMPACTED, DAY_MS, clean, headers_of, keyed, pairs_of, planned, records_of


def new_log(disk: CrashingDisk | None = None, **config: Any) -> Log:
    defaults: dict[str, Any] = {"cleanup_policy": COMPACTED, "segment_bytes": 1_000, "index_interval_bytes": 100}
    return open_log(disk or CrashingDisk(seed=1), **(defaults | config))


def assert_sound(log: Log) -> None:
    log.close()
    report = verify_log_directory(log.disk, DIRECTORY)
    assert report.problems == ()


def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    log = new_log()
    append(log, keyed((b"a", b"1"), (b"b", b"1"), (b"a", b"2")))
    append(log, keyed((b"c", b"1"), (b"a", b"3")))

    done = clean(log)

    assert pairs_of(log) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3")]
    assert done is not None
    assert (done.records_read, done.records_kept, done.keys, done.clean_offset) == (5, 3, 3, 5)
    assert headers_of(log) == [(0, 2, 1), (3, 4, 2)]
    assert_sound(log)


def test_timestamps_and_headers_of_what_stays_are_as_they_were() -> None:
    log = new_log()
    record = Record(key=b"k", value=b"v" * 300, headers=[("h", b"1"), ("n", None)], timestamp_ms=NOW_MS + 7)
    append(log, build_batch([Record(key=b"x", value=b"1", timestamp_ms=NOW_MS), record]), keyed((b"x", b"2")))

    clean(log)

    kept = records_of(log)[0]
    assert (kept.timestamp_ms, kept.headers, kept.value) == (NOW_MS + 7, [("h", b"1"), ("n", None)], b"v" * 300)


def test_a_second_compaction_compares_old_with_new() -> None:
    log = new_log()
    append(log, keyed((b"a", b"1"), (b"b", b"1")))
    clean(log)
    append(log, keyed((b"a", b"2"), (b"c", b"1")))

    clean(log)

    assert pairs_of(log) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1")]


@pytest.mark.parametrize("compression", list(Compression))
def test_batches_keep_their_compression(compression: Compression) -> None:
    log = new_log()
    append(log, keyed((b"a", b"1" * 50), (b"b", b"1" * 50), compression=compression), keyed((b"a", b"2")))

    clean(log)

    assert pairs_of(log) == [(1, b"b", b"1" * 50), (2, b"a", b"2")]
    first = next(iter_batches(b"".join(bytes(one) for one in log.segments[0].scan())))
    assert first.compression is compression


def test_long_keys_are_told_apart() -> None:
    log = new_log()
    append(log, keyed((b"k" * 100, b"1"), (b"k" * 99, b"1"), (b"k" * 32, b"1"), (b"k" * 33, b"1"), (b"k" * 100, b"2")))

    clean(log)

    assert [(key, value) for _, key, value in pairs_of(log)] == [
        (b"k" * 99, b"1"),
        (b"k" * 32, b"1"),
        (b"k" * 33, b"1"),
        (b"k" * 100, b"2"),
    ]


def test_neighbours_that_became_small_are_merged() -> None:
    log = new_log()
    for number in range(25):
        append(log, keyed((b"k%d" % (number % 3), bytes(100))))
    assert len(log.segments) > 4

    clean(log)
    append(log, keyed((b"x", b"")))
    clean(log)

    assert len(log.segments) == 2
    assert len(pairs_of(log)) == 4
    assert_sound(log)


def test_a_deletion_mark_stays_for_its_time_and_then_goes() -> None:
    log = new_log(delete_retention_ms=DAY_MS)
    append(log, keyed((b"a", b"1"), (b"b", b"1")))
    append(log, keyed((b"a", None), timestamp_ms=NOW_MS))
    append(log, keyed((b"z", b"")))

    clean(log)
    assert pairs_of(log)[:2] == [(1, b"b", b"1"), (2, b"a", None)]
    stamped = [BATCH_HEADER.unpack_from(one) for one in log.segments[0].scan()][1]
    assert stamped[5] & DELETE_HORIZON_BIT
    assert stamped[7] == NOW_MS + DAY_MS
    assert records_of(log)[1].timestamp_ms == NOW_MS

    append(log, keyed((b"c", b"1")))
    clean(log, now_ms=NOW_MS + DAY_MS - 1)
    assert (2, b"a", None) in pairs_of(log)

    append(log, keyed((b"c", b"2")))
    clean(log, now_ms=NOW_MS + DAY_MS)
    assert [key for _, key, _ in pairs_of(log)] == [b"b", b"z", b"c"]
    assert_sound(log)


def test_records_of_aborted_transactions_go_and_their_marker_follows_later() -> None:
    log = new_log(delete_retention_ms=DAY_MS)
    append(log, keyed((b"a", b"old")))
    append(log, keyed((b"a", b"aborted"), producer_id=7, epoch=0, sequence=0, transactional=True))
    append(log, marker(commits=False, producer_id=7), origin=Origin.COORDINATOR)
    append(log, keyed((b"b", b"1"), producer_id=8, epoch=0, sequence=0, transactional=True))
    append(log, marker(commits=True, producer_id=8), origin=Origin.COORDINATOR)
    append(log, keyed((b"z", b"1"), producer_id=7, epoch=0, sequence=1))

    clean(log)
    assert pairs_of(log) == [(0, b"a", b"old"), (3, b"b", b"1"), (5, b"z", b"1")]
    assert [base for base, _, _ in headers_of(log)] == [0, 2, 3, 4, 5]
    assert [found.last_offset for found in log.aborted_transactions(0, 6)] == [2]

    append(log, keyed((b"c", b"1")))
    clean(log)  # nothing of the transaction is left: from now on the marker's days are numbered
    append(log, keyed((b"c", b"2")))
    clean(log, now_ms=NOW_MS + DAY_MS)
    assert [base for base, _, _ in headers_of(log)] == [0, 3, 4, 5, 7]
    assert log.aborted_transactions(0, 8) == []
    assert_sound(log)


def test_an_open_transaction_is_not_touched() -> None:
    log = new_log()
    append(log, keyed((b"a", b"1"), (b"a", b"2")))
    log.roll(NOW_MS)
    append(log, keyed((b"a", b"3"), producer_id=7, epoch=0, sequence=0, transactional=True))
    log.roll(NOW_MS)
    append(log, keyed((b"b", b"3")))

    clean(log)

    assert pairs_of(log) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"b", b"3")]


def test_the_last_batch_of_a_producer_stays_and_its_state_with_it() -> None:
    log = new_log()
    append(log, keyed((b"a", b"1"), producer_id=5, epoch=0, sequence=0))
    append(log, keyed((b"a", b"2"), (b"b", b"2"), producer_id=5, epoch=0, sequence=1))
    append(log, keyed((b"a", b"3"), (b"b", b"3")))

    clean(log)

    assert headers_of(log) == [(1, 2, 0), (3, 4, 2)]
    for snapshot in list(log.snapshots.offsets):
        log.snapshots.remove([snapshot])
    log.close()
    again = open_log(log.disk, clean=False, recovery_point=log.end_offset)
    again.snapshots.remove(list(again.snapshots.offsets))
    again._producers = None
    assert again.producers.producers[5].last_sequence == 2
    assert append(again, keyed((b"a", b"2"), (b"b", b"2"), producer_id=5, epoch=0, sequence=1)) == 1


def test_keys_that_do_not_fit_wait_for_the_next_time() -> None:
    log = new_log()
    for _ in range(2):
        for number in range(30):
            append(log, keyed((b"%02d" % number, bytes(50))))
    config = CleanerConfig(dedupe_buffer_bytes=1 << 20)
    object.__setattr__(config, "dedupe_buffer_bytes", 20 * ENTRY_BYTES)

    rounds = [clean(log, config=config) for _ in range(3)]

    assert [done.clean_offset for done in rounds if done] == [20, 40, 60]
    assert [done.map_is_full for done in rounds if done] == [True, True, False]
    assert [offset for offset, _, _ in pairs_of(log)] == list(range(30, 60))


def test_records_without_a_key_go() -> None:
    log = new_log(cleanup_policy=frozenset({"delete"}))
    append(log, keyed((None, b"1"), (b"a", b"1")), keyed((b"b", b"1")))
    log.config = new_log().config

    clean(log)

    assert [key for _, key, _ in pairs_of(log)] == [b"a", b"b"]


@pytest.mark.parametrize(("position", "problem"), [(65, "checksum"), (70, "out of order"), (86, "no record batch")])
def test_a_damaged_batch_stops_it_and_changes_nothing(position: int, problem: str) -> None:
    disk = CrashingDisk(seed=1)
    log = new_log(disk)
    append(log, keyed((b"a", b"1")), keyed((b"a", b"2")))
    log.roll(NOW_MS)
    before = b"".join(bytes(one) for one in log.segments[0].scan())
    log.segments[0].file().pwritev([b"\xff"], position)

    with pytest.raises(CorruptBatchError, match=problem):
        clean(log)

    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".swap")]
    assert log.segments[0].size_bytes == len(before)


def first_record_from(log: Log, offset: int) -> int:
    """As a consumer finds it: it goes on after each batch, the empty ones too."""
    while True:
        for one in iter_batches(log.read(offset, 1_000, upto_offset=60, min_one_batch=True)):
            if one.record_count:
                return one.base_offset
            offset = one.last_offset + 1


def test_reading_goes_on_over_gaps_from_any_offset() -> None:
    log = new_log()
    for number in range(60):
        append(log, keyed((b"k%d" % (number % 2), bytes(40)), timestamp_ms=NOW_MS + number))
    clean(log)
    kept = [offset for offset, _, _ in pairs_of(log)]
    assert kept == [58, 59]

    for offset in range(60):
        assert first_record_from(log, offset) == max(offset, 58)
    found = log.offset_for_timestamp(NOW_MS + 5)
    assert found is not None
    assert found.offset == 58
    largest = log.max_timestamp()
    assert largest is not None
    assert largest.offset == 59


def test_the_largest_timestamp_is_found_though_its_batch_is_empty() -> None:
    log = new_log()
    append(log, keyed((b"a", b"1"), timestamp_ms=NOW_MS + 1_000, producer_id=5, epoch=0, sequence=0))
    append(log, keyed((b"b", b"1"), timestamp_ms=NOW_MS), keyed((b"a", b"2"), timestamp_ms=NOW_MS + 1))
    clean(log)

    found = log.max_timestamp()

    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, NOW_MS + 1)


@pytest.mark.parametrize("cut_at", range(21))
def test_a_compacted_log_can_be_truncated_anywhere_and_a_follower_appends_to_it(cut_at: int) -> None:
    log = new_log()
    for number in range(20):
        append(log, keyed((b"k%d" % (number % 3), bytes(90))))
    clean(log)
    leaders = b"".join(bytes(one) for segment in log.segments for one in segment.scan())
    before = pairs_of(log)

    end = log.truncate_to(cut_at)

    assert end <= cut_at
    assert pairs_of(log) == [row for row in before if row[0] < cut_at]
    log.append_as_follower(b"".join(bytes(one.data) for one in iter_batches(leaders) if one.base_offset >= end))
    log.write_pending()
    assert pairs_of(log) == before
    assert_sound(log)


def test_a_follower_gets_segments_without_holes_between_them() -> None:
    leader = new_log()
    for number in range(200):
        append(leader, keyed((b"k%d" % (number if number % 5 == 0 else 1), bytes(90))))
    clean(leader)
    follower = open_log(CrashingDisk(seed=2), segment_bytes=1_000)
    follower.append_as_follower(b"".join(bytes(one) for segment in leader.segments for one in segment.scan()))
    follower.write_pending()

    assert pairs_of(follower) == pairs_of(leader)
    for segment, following in zip(follower.segments, follower.segments[1:], strict=False):
        assert segment.end_offset() == following.base_offset
    follower.close()
    again = open_log(follower.disk, clean=False, recovery_point=0, segment_bytes=1_000)
    assert pairs_of(again) == pairs_of(leader)
    assert again.report.problems == ()


def test_without_checkpoints_a_compacted_log_is_recovered_from_its_start() -> None:
    log = new_log()
    for number in range(60):
        append(log, keyed((b"k%d" % (number % 7), bytes(90))))
    clean(log)
    before = pairs_of(log)
    log.close()

    again = open_log(log.disk, clean=False, recovery_point=0, segment_bytes=1_000)

    assert pairs_of(again) == before
    assert again.report.bytes_cut == 0


keys = st.sampled_from([b"a", b"b", b"c", b"d" * 40, b"e" * 200])
values = st.one_of(st.none(), st.binary(max_size=80))
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=6)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), pairs, st.sampled_from(Compression)),
        st.tuples(st.just("txn"), pairs, st.booleans()),
        st.tuples(st.just("clean"), st.integers(0, 3), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=120, deadline=None)
@given(steps)
def test_whatever_is_written_and_compacted_the_newest_committed_value_of_each_key_is_read(todo: list[Any]) -> None:
    log = new_log(segment_bytes=2_000, delete_retention_ms=DAY_MS)
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    written: set[tuple[int, bytes, bytes | None]] = set()
    now_ms, sequence = NOW_MS, 0
    for kind, content, option in todo:
        if kind == "clean":
            now_ms += content * DAY_MS // 2
            clean(log, now_ms=now_ms)
            continue
        if kind == "batch":
            base = append(log, keyed(*content, compression=option))
        else:
            base = append(log, keyed(*content, producer_id=9, epoch=0, sequence=sequence, transactional=True))
            append(log, marker(commits=option, producer_id=9), origin=Origin.COORDINATOR)
            sequence += len(content)
        for offset, (key, value) in enumerate(content, base):
            written.add((offset, key, value))
            if kind == "batch" or option:
                newest[key] = (offset, value)
    end = log.end_offset
    append(log, keyed((b"end", b"")))
    newest[b"end"] = (end, b"")
    written.add((end, b"end", b""))
    clean(log, now_ms=now_ms)

    found = pairs_of(log)

    assert set(found) <= written
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    by_key = {key: (offset, value) for offset, key, value in found}
    assert len(by_key) == len(found)
    for key, (offset, value) in newest.items():
        assert by_key.get(key) == (offset, value) or (value is None and key not in by_key)
    assert set(by_key) <= set(newest)
    assert planned(log) is None
    assert_sound(log)
