from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from ottla.ports import Bytes
from ottla.protocol.records import BODY_AT, Record, build_batch
from ottla.storage.journal import (
    DIRECTORY,
    FREE_FILES_MAX,
    STRETCH_BYTES,
    Block,
    FilePreparation,
    Journal,
    file_path,
)
from ottla.storage.journal_format import (
    ENTRY_BYTES,
    SECTOR_BYTES,
    Kind,
    append_entry,
    append_key,
    control_entry,
    round_up,
)
from ottla.storage.journal_reader import JournalReader, LoggedEntry
from ottla.testing.disk import CrashingDisk, Fault, Operation
from ottla.testing.disk_model import EVERYTHING_WRITTEN, NOTHING_UNSYNCED, Keep, Survival

TOPIC = b"t" * 16
FILE_BYTES = 64 * SECTOR_BYTES


def batch(offset: int, size: int = 40) -> list[bytes]:
    """Head and body, as a log hands them out."""
    data = build_batch([Record(timestamp_ms=1, key=None, value=bytes([offset % 251]) * size)], base_offset=offset)
    return [data[:BODY_AT], data[BODY_AT:]]


def journal_on(disk: CrashingDisk, file_size_bytes: int = FILE_BYTES) -> Journal:
    return Journal(disk, Random(1), file_size_bytes=file_size_bytes)


def block_of(journal: Journal, *offsets: int, size: int = 40) -> Block:
    """One entry of a batch for each offset."""
    payload: list[Bytes] = []
    for offset in offsets:
        buffers = batch(offset, size)
        payload += [append_entry(append_key(TOPIC, 0), buffers, sum(map(len, buffers))), *buffers]
    return journal.block(payload, sum(map(len, payload)), len(offsets))


def commit(journal: Journal, *offsets: int, size: int = 40) -> Block:
    block = block_of(journal, *offsets, size=size)
    block.write()
    block.into.sync()
    journal.mark_synced(block.sequence)
    return block


def offsets_in(disk: CrashingDisk) -> list[int]:
    reader = JournalReader(disk)
    found = [entry.offset for entry in reader.entries()]
    assert reader.damage == []
    return found


def entries_in(disk: CrashingDisk) -> tuple[list[LoggedEntry], JournalReader]:
    reader = JournalReader(disk)
    return list(reader.entries()), reader


# Writing and reading


def test_what_was_committed_is_read_back_in_order_after_a_crash() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0, 1)
    commit(journal, 2)

    entries, reader = entries_in(disk.crash(NOTHING_UNSYNCED))

    assert [entry.offset for entry in entries] == [0, 1, 2]
    assert [reader.data(entry) for entry in entries] == [b"".join(batch(offset)) for offset in range(3)]
    assert reader.damage == []


def test_an_entry_holds_several_batches_and_control_entries_none() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    buffers = [*batch(5), *batch(6)]
    payload = [
        append_entry(append_key(TOPIC, 3), buffers, sum(map(len, buffers))),
        *buffers,
        control_entry(Kind.TRUNCATE, TOPIC, 3, 6),
    ]
    block = journal.block(payload, sum(map(len, payload)), 2)
    block.write()

    (append, truncate), reader = entries_in(disk)

    assert (append.kind, append.topic_id, append.partition, append.offset) == (Kind.APPEND, TOPIC, 3, 5)
    assert reader.data(append) == b"".join(buffers)
    assert (truncate.kind, truncate.offset, truncate.data_bytes) == (Kind.TRUNCATE, 6, 0)


def test_a_commit_is_one_write_and_one_sync() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0)
    disk.counters.writes = disk.counters.syncs = disk.counters.directory_syncs = 0
    commit(journal, *range(1, 20))

    assert (disk.counters.writes, disk.counters.syncs, disk.counters.directory_syncs) == (1, 1, 0)


def test_a_block_never_touches_a_sector_of_another() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    blocks = [commit(journal, offset, size=offset * 37 % 1500) for offset in range(10)]

    for before, after in pairwise(blocks):
        assert after.position % SECTOR_BYTES == 0
        assert after.position == before.position + round_up(sum(map(len, before.buffers)))


def test_an_empty_journal_holds_nothing() -> None:
    reader = JournalReader(CrashingDisk())

    assert list(reader.entries()) == []
    assert reader.resume() is None


# The ring


def test_the_first_file_is_durable_with_its_first_block() -> None:
    disk = CrashingDisk()
    commit(journal_on(disk), 7)

    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == [7]


def test_a_full_file_is_followed_by_another_and_order_is_kept() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    for offset in range(300):
        commit(journal, offset)

    assert len(disk.list(DIRECTORY)) > 4
    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == list(range(300))


def test_a_file_made_in_a_hurry_is_not_written_with_zeros_first() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0, size=FILE_BYTES - 2_000)
    written = disk.counters.bytes_written
    commit(journal, 1, size=2_000)

    assert disk.counters.bytes_written - written < 3_000
    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == [0, 1]


def test_a_block_larger_than_a_file_gets_a_file_of_its_size() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0)
    commit(journal, 1, size=3 * FILE_BYTES)
    commit(journal, 2)

    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == [0, 1, 2]


def test_released_files_are_used_again_and_what_they_held_is_gone() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    for offset in range(2_000):
        block = commit(journal, offset)
        if offset % 10 == 9:
            journal.release(block.sequence + 1)

    assert len(disk.list(DIRECTORY)) <= 2 + FREE_FILES_MAX
    found = offsets_in(disk.crash(NOTHING_UNSYNCED))
    assert found == list(range(found[0], 2_000))
    assert found[0] >= 1_980


def test_a_file_is_not_written_over_before_a_durable_block_says_that_it_is_not_needed() -> None:
    disk = CrashingDisk(seed=5)
    journal = journal_on(disk)
    acknowledged = needed_from = 0

    def check(operation: Operation, path: str) -> None:
        found = offsets_in(disk.crash())
        assert set(range(needed_from, acknowledged)) <= set(found)
        assert found == sorted(found)

    disk.before_operation = check
    for offset in range(150):
        block = commit(journal, offset, size=900)
        acknowledged = offset + 1
        if offset % 7 == 6:
            needed_from = offset + 1
            journal.release(block.sequence + 1)


def make_next(journal: Journal) -> None:
    """What should be made of the next file by now."""
    while (preparation := journal.preparation()) is not None:
        preparation.run()
        journal.add(preparation)


def test_the_next_file_is_made_once_three_quarters_of_the_current_one_are_full() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk, file_size_bytes=4 << 20)
    commit(journal, 0)
    assert journal.preparation() is None

    commit(journal, 1, size=790_000)
    preparation = journal.preparation()
    assert isinstance(preparation, FilePreparation)
    assert journal.preparation() is None
    preparation.run()
    journal.add(preparation)
    assert journal.preparation() is None
    assert disk.crash(NOTHING_UNSYNCED).size(file_path(1)) == 4 << 20
    assert (file_path(1), 0) in disk.counters.synced_in_pieces
    writes_before = disk.counters.bytes_written
    commit(journal, 2, size=600_000)

    assert disk.counters.bytes_written - writes_before < 700_000
    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == [0, 1, 2]


def test_what_is_made_of_the_next_file_keeps_up_with_what_is_filled_of_the_third_quarter_of_this_one() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk, file_size_bytes=8 << 20)
    made = []
    for offset in range(2_000):  # a sector each, in a first file of 2,048
        commit(journal, offset)
        if journal.is_at_a_turn:
            make_next(journal)
        made.append(disk.size(file_path(1)) if disk.exists(file_path(1)) else 0)

    # Of the third quarter, which has 512 sectors. The file's own header is one more.
    filled = [(number + 2 - 1_024) / 512 for number in range(2_000)]
    assert all(size == 0 for size, part in zip(made, filled, strict=True) if part < 0)
    assert all(part * (8 << 20) <= size for size, part in zip(made, filled, strict=True) if 0 <= part <= 1)
    most = STRETCH_BYTES + (8 << 20) // 512
    assert all(size <= part * (8 << 20) + most for size, part in zip(made, filled, strict=True) if part >= 0)
    assert len(set(made)) - 1 == (8 << 20) // STRETCH_BYTES
    assert disk.crash(NOTHING_UNSYNCED).size(file_path(1)) == 8 << 20


def test_a_file_that_was_made_in_part_when_the_node_stopped_is_no_obstacle() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk, file_size_bytes=8 << 20)
    commit(journal, 0, size=530_000)
    commit(journal, 1)
    preparation = journal.preparation()
    assert preparation is not None
    preparation.run()
    journal.add(preparation)
    assert 0 < disk.size(file_path(1)) < 8 << 20
    resume = journal.position
    journal.close()

    again = Journal(disk, Random(2), file_size_bytes=8 << 20, resume=resume)
    for offset in range(2, 40):
        commit(again, offset, size=300_000)
        make_next(again)

    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == list(range(2, 40))


def test_it_says_when_a_file_was_begun_or_is_half_full_and_in_between_it_does_not() -> None:
    journal = journal_on(CrashingDisk())
    turns = []
    for offset in range(110):  # a sector each, in files of 64
        commit(journal, offset)
        if journal.is_at_a_turn:
            turns.append((journal.position.file_number, journal.position.position // SECTOR_BYTES))
            make_next(journal)

    assert [number for number, _ in turns] == [0, 0, 1, 1]
    begun, half = (1, 4), (32, 35)
    assert all(low <= at <= high for (_, at), (low, high) in zip(turns, (begun, half, begun, half), strict=True))


def test_a_block_that_takes_the_place_of_a_rewound_one_is_at_a_turn() -> None:
    journal = journal_on(CrashingDisk())
    commit(journal, 0)
    refused = block_of(journal, 1, size=FILE_BYTES // 2)
    journal.preparation()
    journal.rewind(refused)
    commit(journal, 1, size=FILE_BYTES // 2)
    assert journal.is_at_a_turn


def test_files_grow_step_by_step_and_small_ones_are_not_used_again() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk, file_size_bytes=20 << 20)
    sizes = []
    for offset in range(60):
        block = commit(journal, offset, size=1 << 19)
        journal.release(block.sequence)
        make_next(journal)
        sizes.append(block.into.capacity_bytes >> 20)
        assert offsets_in(disk.crash(NOTHING_UNSYNCED))[-1] == offset

    assert [size for size, before in zip(sizes, [0, *sizes], strict=False) if size != before] == [1, 8, 20]
    assert {disk.size(f"{DIRECTORY}/{name}") >> 20 for name in disk.list(DIRECTORY)} == {20}


def test_a_preparation_that_failed_is_tried_again() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0, size=FILE_BYTES - 2_000)
    failed = journal.preparation()
    assert failed is not None
    disk.faults.append(Fault(operation=Operation.WRITE, times=1))
    with pytest.raises(OSError, match="error"):
        failed.run()
    journal.add(failed)

    assert len(disk.list(DIRECTORY)) == 1
    assert journal.preparation() is not None


def test_a_rewound_block_leaves_its_place_and_number_to_the_next() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0)
    for size in (40, 2_000, 4 * FILE_BYTES):
        abandoned = block_of(journal, 99, size=size)
        journal.rewind(abandoned)
    commit(journal, 1)

    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == [0, 1]


def test_two_blocks_are_rewound_at_once_even_over_the_end_of_a_file() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0)
    first = block_of(journal, 98, size=2_000)
    block_of(journal, 99, size=FILE_BYTES)
    journal.rewind(first)
    commit(journal, 1)
    commit(journal, 2, size=FILE_BYTES)

    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == [0, 1, 2]


def test_a_disk_without_room_for_a_new_file_leaves_the_journal_usable() -> None:
    disk = CrashingDisk(capacity_bytes=FILE_BYTES + 8 * SECTOR_BYTES)
    journal = journal_on(disk)
    commit(journal, 0)
    refused = block_of(journal, 1, size=FILE_BYTES)
    with pytest.raises(OSError, match="space"):
        refused.write()
    journal.rewind(refused)
    commit(journal, 1)

    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == [0, 1]


# After a restart


def restarted(disk: CrashingDisk) -> Journal:
    resume = JournalReader(disk).resume()
    return Journal(disk, Random(2), file_size_bytes=FILE_BYTES, resume=resume)


def test_writing_goes_on_behind_the_last_block() -> None:
    disk = CrashingDisk()
    commit(journal_on(disk), 0)
    journal = restarted(disk)
    commit(journal, 1)

    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == [1]
    assert len(disk.list(DIRECTORY)) == 1


def test_the_old_blocks_count_until_the_first_new_one_is_durable() -> None:
    disk = CrashingDisk(seed=9)
    journal = journal_on(disk)
    for offset in range(100):
        commit(journal, offset, size=900)
    disk = disk.crash(NOTHING_UNSYNCED)
    journal = restarted(disk)
    block = block_of(journal, 100)
    block.write()

    found = {tuple(offsets_in(disk.crash())) for _ in range(40)}

    assert found == {tuple(range(100)), (100,)}


def test_many_restarts_don_t_pile_up_files() -> None:
    disk = CrashingDisk(seed=3)
    for offset in range(60):
        commit(restarted(disk), offset, size=5_000)
        disk = disk.crash()

    assert len(disk.list(DIRECTORY)) <= 4 + FREE_FILES_MAX  # a removal may be lost in a crash
    assert offsets_in(disk) == [59]


# Damage


def torn_at(disk: CrashingDisk, kept_bytes: int) -> CrashingDisk:
    return disk.crash(Survival(data=Keep.PREFIX, names=Keep.EVERYTHING, prefix_bytes=kept_bytes))


def test_a_torn_commit_is_left_out_wherever_it_tore() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0)
    commit(journal, 1)
    block = block_of(journal, 2, 3)
    block.write()
    size = sum(map(len, block.buffers))

    for kept_bytes in range(size - 1):  # the last byte is a zero, as is what stands there before
        assert offsets_in(torn_at(disk, kept_bytes)) == [0, 1]
    assert offsets_in(torn_at(disk, size)) == [0, 1, 2, 3]


def test_a_torn_commit_is_counted_and_then_written_over() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0)
    block_of(journal, 1, size=2_000).write()
    disk = torn_at(disk, 700)
    reader = JournalReader(disk)
    assert reader.torn_blocks == 1

    commit(restarted(disk), 2)

    assert offsets_in(disk.crash(NOTHING_UNSYNCED)) == [2]


def test_of_unsynced_blocks_the_first_torn_one_ends_the_journal() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    commit(journal, 0)
    unsynced = [block_of(journal, offset) for offset in (1, 2, 3)]
    for block in (unsynced[0], unsynced[2]):
        block.write()

    entries, reader = entries_in(disk.crash(EVERYTHING_WRITTEN))

    assert [entry.offset for entry in entries] == [0, 1]
    assert reader.torn_blocks == 1
    assert reader.damage == []


def corrupt(disk: CrashingDisk, block: Block, at: int) -> None:
    disk.flip_bit(file_path(block.into.number), 8 * (block.position + at))


def test_damage_in_the_middle_is_told_from_a_torn_tail_and_reading_goes_on() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    blocks = [commit(journal, offset, size=700) for offset in range(4)]
    corrupt(disk, blocks[1], at=2)  # its header: the block can't be found at all

    entries, reader = entries_in(disk)

    assert [entry.offset for entry in entries] == [0, 2, 3]
    assert len(reader.damage) == 1
    assert "Block 2" in reader.damage[0]


def test_damaged_records_are_reported_with_what_they_were_and_the_rest_is_used() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    block = commit(journal, 0, 1, 2)
    commit(journal, 3)
    second = len(block.buffers[0]) + 2 * ENTRY_BYTES + 2 * sum(map(len, batch(0))) - 3
    corrupt(disk, block, at=second)

    entries, reader = entries_in(disk)

    assert [(entry.offset, entry.intact) for entry in entries] == [(0, True), (1, False), (2, True), (3, True)]
    assert len(reader.damage) == 1


def test_a_damaged_entry_header_hides_the_rest_of_its_block_only() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    block = commit(journal, 0, 1, 2)
    commit(journal, 3)
    corrupt(disk, block, at=len(block.buffers[0]) + ENTRY_BYTES + sum(map(len, batch(0))) + 10)

    entries, reader = entries_in(disk)

    assert [entry.offset for entry in entries] == [0, 3]
    assert "Only 1 of 3 entries" in reader.damage[0]


def test_a_damaged_file_header_is_reported() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    for offset in range(100):
        commit(journal, offset, size=900)
    disk.flip_bit(file_path(1), 3)

    entries, reader = entries_in(disk)

    assert {entry.offset for entry in entries} < set(range(100))
    assert entries[-1].offset == 99
    assert "does not start" in reader.damage[0]


@pytest.mark.parametrize("bit", range(0, 8 * 300, 41))
def test_no_flipped_bit_is_ever_taken_for_data(bit: int) -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    blocks = [commit(journal, 2 * number, 2 * number + 1) for number in range(3)]
    disk.flip_bit(file_path(0), 8 * blocks[1].position + bit)

    entries, reader = entries_in(disk)

    for entry in entries:
        if entry.intact:
            assert reader.data(entry) == b"".join(batch(entry.offset))
    assert [entry.offset for entry in entries if entry.offset not in (2, 3)] == [0, 1, 4, 5]


def test_a_record_that_looks_like_a_block_is_not_taken_for_one() -> None:
    disk = CrashingDisk()
    journal = journal_on(disk)
    forged = _payload_with_every_sector_a_block(disk)
    commit(journal, 0)
    buffers = batch(1)
    payload = [append_entry(append_key(TOPIC, 0), buffers, sum(map(len, buffers))), *buffers, *forged]
    journal.block(payload, sum(map(len, payload)), 2).write()

    assert offsets_in(disk) == [0]


def _payload_with_every_sector_a_block(disk: CrashingDisk) -> Sequence[bytes]:
    """Blocks of a journal whose salt is another: what a client without knowledge of ours could send."""
    other = CrashingDisk()
    journal = Journal(other, Random(77), file_size_bytes=FILE_BYTES)
    for offset in range(1_000, 1_010):
        commit(journal, offset)
    return [other.open(file_path(0)).pread(20 * SECTOR_BYTES, SECTOR_BYTES)]
