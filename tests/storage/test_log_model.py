"""A log does what a list would: any sequence of operations, compared with the simplest thing that could be right."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.protocol.records import BODY_AT, iter_batches
from ottla.storage.log import Log
from ottla.storage.verify import verify_log_directory
from ottla.testing.disk import CrashingDisk
from ottla.testing.disk_model import EVERYTHING_WRITTEN
from tests.storage.batches import DIRECTORY, NOW_MS, batch, open_log

SETTINGS = st.fixed_dictionaries(
    {
        "segment_bytes": st.sampled_from([1_400, 4_000, 10**6]),
        "index_interval_bytes": st.sampled_from([0, 200, 4096]),
        "segment_index_bytes": st.sampled_from([60, 10**6]),
    }
)


@dataclass
class Held:
    """A batch of the model."""

    base_offset: int
    last_offset: int
    body: bytes
    timestamps: list[int]
    leader_epoch: int


class LogMachine(RuleBasedStateMachine):
    @initialize(config=SETTINGS)
    def open(self, config: dict[str, int]) -> None:
        self.config = config
        self.disk = CrashingDisk()
        self.log = self._open(clean=True)
        self.held: list[Held] = []
        self.start = 0
        self.end = 0
        self.written = 0
        self.epoch = 0
        self.sequence = 0

    def _open(self, *, clean: bool, recovery_point: int = 0, start_offset: int = 0) -> Log:
        return open_log(
            self.disk,
            clean=clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
            **self.config,
        )

    # What may happen

    @rule(
        sizes=st.lists(st.integers(0, 300), min_size=1, max_size=4), late_ms=st.integers(-50, 50), twice=st.booleans()
    )
    def append(self, sizes: list[int], late_ms: int, twice: bool) -> None:
        times = [NOW_MS + late_ms + number for number in range(len(sizes))]
        data = batch(*map(bytes, sizes), timestamp_ms=times, producer_id=7, epoch=self.epoch, sequence=self.sequence)
        for _ in range(2 if twice else 1):
            offset = self.log.append_as_leader(data, leader_epoch=self.epoch, now_ms=NOW_MS)
            assert offset == self.end
        self.held.append(Held(self.end, self.end + len(sizes) - 1, data[BODY_AT:], times, self.epoch))
        self.end += len(sizes)
        self.sequence += len(sizes)

    @rule()
    def new_epoch(self) -> None:
        """Another leader, and the producer starts anew."""
        self.epoch += 1
        self.sequence = 0

    @rule()
    def write(self) -> None:
        self.log.write_pending()
        self.written = self.end

    @rule()
    def sync(self) -> None:
        self.log.sync()

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self._cut(self.log.truncate_to(offset), offset)

    @rule(data=st.data())
    def reload(self, data: st.DataObject) -> None:
        """A commit failed: only what was durable before is left."""
        ends = [self.written, *(held.base_offset for held in self.held if held.base_offset < self.written)]
        durable = data.draw(st.sampled_from(ends))
        self.log.reload(durable)
        self._cut(self.log.end_offset, durable)

    def _cut(self, end: int, wanted: int) -> None:
        """Batches go as a whole: the log ends where the first of those that go began."""
        assert end == min([wanted, *(held.base_offset for held in self.held if held.last_offset >= wanted)])
        self.held = [held for held in self.held if held.last_offset < wanted]
        self.end = self.written = end
        self.start = min(self.start, end)
        self.new_epoch()

    @rule(offset=st.integers(0, 200))
    def start_anew(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.held = []
        self.start = self.end = self.written = offset
        self.new_epoch()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.written))
        self.log.delete_records_before(self.start)

    @rule()
    def retain(self) -> None:
        for segment in self.log.delete_old_segments(NOW_MS, self.written):
            segment.remove()

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        assert verify_log_directory(self.disk, DIRECTORY).problems == ()
        self.log = self._open(clean=True, start_offset=self.start)
        self.written = self.end

    @rule()
    def kill_and_start(self) -> None:
        """The process dies and the machine does not: everything that was written is there."""
        point = self.log.recovery_point
        self.disk = self.disk.crash(EVERYTHING_WRITTEN)
        self.log = self._open(clean=False, recovery_point=point, start_offset=self.start)
        assert self.log.report.bytes_cut == 0
        self._cut(self.log.end_offset, self.written)

    # What must hold

    @precondition(lambda self: self.written > self.start)
    @rule(data=st.data(), max_bytes=st.integers(0, 1_500), min_one_batch=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, min_one_batch: bool) -> None:
        visible = [held for held in self.held if held.last_offset < self.written]
        offset = data.draw(st.integers(self.start, self.written - 1))
        upto = data.draw(st.sampled_from([self.written, *(held.base_offset for held in visible)]))
        found = self.log.read(offset, max_bytes, upto_offset=upto, min_one_batch=min_one_batch)
        wanted = [held for held in visible if held.last_offset >= offset and held.base_offset < upto]
        batches = list(iter_batches(found))
        assert [bytes(one.data[BODY_AT:]) for one in batches] == [held.body for held in wanted[: len(batches)]]
        assert [one.base_offset for one in batches] == [held.base_offset for held in wanted[: len(batches)]]
        if wanted and (min_one_batch or max_bytes >= len(wanted[0].body) + BODY_AT):
            assert batches
        if len(batches) > 1:
            assert len(found) <= max_bytes

    @rule(late_ms=st.integers(-60, 60))
    def search(self, late_ms: int) -> None:
        records = [
            (time, held.base_offset + number, held.leader_epoch)
            for held in self.held
            if held.last_offset < self.written
            for number, time in enumerate(held.timestamps)
        ]
        wanted = [found for found in records if found[1] >= self.start and found[0] >= NOW_MS + late_ms]
        assert self.log.offset_for_timestamp(NOW_MS + late_ms) == (wanted[0] if wanted else None)

    @invariant()
    def ends(self) -> None:
        log = self.log
        assert (log.end_offset, log.written_offset, log.start_offset) == (self.end, self.written, self.start)
        assert log.recovery_point <= log.durable_offset <= log.written_offset <= log.end_offset

    @invariant()
    def epochs(self) -> None:
        begun: dict[int, int] = {}
        for held in self.held:
            begun.setdefault(held.leader_epoch, held.base_offset)
        known = {epoch: max(start, self.start) for epoch, start in begun.items()}
        for epoch, start in self.log.leader_epochs.entries():
            assert known.get(epoch, start) == start


LogMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLog = LogMachine.TestCase
