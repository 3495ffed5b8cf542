"""What a log is made of, and what is loaded of it when.

Opening a log finds its two ends and reads nothing else; the parts that need another look into files come when somebody
asks for them: leader epochs and producers.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from ottla.config import TimestampType
from ottla.storage import names
from ottla.storage.append import looks_inside
from ottla.storage.journal_format import append_key
from ottla.storage.loading import load_epochs
from ottla.storage.pending import FileSync, name_syncs
from ottla.storage.refusals import Refusals
from ottla.storage.replay import producers_at
from ottla.types import topic_id_text

if TYPE_CHECKING:
    from ottla.config import LogConfig
    from ottla.ports import Disk, File
    from ottla.storage.compaction_swap import Swap
    from ottla.storage.leader_epochs import LeaderEpochs
    from ottla.storage.loading import Loaded, LoadReport
    from ottla.storage.pending import PendingWrite, Syncable
    from ottla.storage.producer_state import ProducerState
    from ottla.storage.segment import Segment
    from ottla.storage.snapshots import Snapshots
    from ottla.types import TopicId, TopicPartition

EPOCH_NOT_LOADED = -2
NO_BOUND_MS: Final = 1 << 60
"""Further than any timestamp is from now, and a number that compiled code has no object for."""
NOTHING_PENDING: list[bytes] = []
"""Shared, and never added to: thousands of logs have nothing pending, and one list stays in the processor's cache."""


class LogState:
    __slots__ = (
        "_active",
        "_after_max_ms",
        "_before_max_ms",
        "_clock_ms",
        "_config",
        "_cuts",
        "_epochs",
        "_gaps_until_ms",
        "_has_directory",
        "_has_index_debts",
        "_holding",
        "_in_flight",
        "_is_read",
        "_known_positions",
        "_last_epoch",
        "_looks_inside",
        "_names_unsynced",
        "_new_metadata",
        "_producers",
        "_size_max",
        "_snapshot_position",
        "_stranger_told_ms",
        "clean_offset",
        "cuts",
        "directory",
        "disk",
        "durable_offset",
        "end_offset",
        "held_bytes",
        "journal_key",
        "journaled_from",
        "last_commit",
        "partition",
        "pending",
        "pending_bytes",
        "recovery_point",
        "refusals",
        "report",
        "segments",
        "snapshots",
        "stamps_append_time",
        "start_offset",
        "swap",
        "topic_id",
        "verifies_transactions",
        "written_offset",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        *,
        loaded: Loaded,
        now_ms: int,
    ) -> None:
        self.refusals = Refusals()
        """Of batches that may be sent again."""
        self.disk = disk
        self.directory = directory
        self.partition = partition
        self.topic_id = topic_id
        self.journal_key = append_key(topic_id, partition.partition)
        self.verifies_transactions = False
        """Whether a client's batch may begin a transaction only if the coordinator was asked about it (KIP-890)."""
        self.clean_offset = 0
        """Below it compaction has left no key twice."""
        self.cuts = 0
        """How often the log was cut or loaded anew: what was decided about its segments before is void."""
        self.swap: Swap | None = None
        """Compacted segments that are about to take the place of others."""
        self.last_commit = -1
        """The number of the last commit that changed it."""
        self.held_bytes = 0
        """What of it counts in `Held`, which keeps this up to date."""
        self._clock_ms = now_ms
        self._stranger_told_ms = 0
        """When a line was last written about a producer of which nothing was known."""
        self._gaps_until_ms = 0
        """Until then what is missing of a producer may still be on its way to the leader before this one."""
        self._in_flight = 0
        """Writes that were taken and have not ended."""
        self._holding: PendingWrite | None = None
        """A share of the commit under way that is to be held when that has ended."""
        self._names_unsynced = False
        self._new_metadata: File | None = None
        """The file with the topic's id, until it is synced."""
        self._take_over(loaded)
        self.config = config

    def _take_over(self, loaded: Loaded) -> None:
        self.segments: list[Segment] = loaded.segments
        self._active = loaded.segments[-1]
        self.snapshots: Snapshots = loaded.snapshots
        self.report: LoadReport = loaded.report
        self._epochs: LeaderEpochs | None = None
        self._producers: ProducerState | None = loaded.producers
        self._last_epoch = EPOCH_NOT_LOADED
        self._has_directory = loaded.has_directory
        self._has_index_debts = False
        """Whether an index was closed, cut, or got an aborted transaction since the last sync."""
        self._snapshot_position = 0
        self.start_offset = loaded.start_offset
        self.end_offset = self.written_offset = loaded.end_offset
        self.recovery_point = self.durable_offset = loaded.recovery_point
        self.journaled_from = loaded.end_offset
        """The journal says nothing of what is below."""
        self._forget_pending()
        if loaded.epochs is not None:
            self._use_epochs(loaded.epochs)
            # It was loaded as after a crash: what is there need not be durable.
            self._names_unsynced = True
            self._has_index_debts = True

    def _forget_pending(self) -> None:
        self.pending: list[bytes] = NOTHING_PENDING
        """Head and body of each batch that no write has taken yet. Replaced when taken, never emptied."""
        self.pending_bytes = 0
        self._cuts: tuple[tuple[int, Segment], ...] = ()
        """Where in `pending` the log rolled, and the segment that ended there."""
        self._known_positions: dict[int, int] = {}
        """Offset → position in the active segment, of the last few writes."""
        self._is_read = False
        """Whether anybody has read from it lately: else nobody needs to know them."""

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._size_max = config.max_message_bytes
        self._before_max_ms = min(config.message_timestamp_before_max_ms, NO_BOUND_MS)
        self._after_max_ms = min(config.message_timestamp_after_max_ms, NO_BOUND_MS)
        self._looks_inside = looks_inside(config)
        self.stamps_append_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        self._active.roll_position = -1

    @property
    def leader_epochs(self) -> LeaderEpochs:
        if self._epochs is None:
            return self._use_epochs(load_epochs(self.disk, self.directory, self.segments, self.written_offset))
        return self._epochs

    def _use_epochs(self, epochs: LeaderEpochs) -> LeaderEpochs:
        epochs.truncate_from_end(self.end_offset)
        epochs.truncate_from_start(self.start_offset)
        self._epochs = epochs
        self._last_epoch = epochs.latest
        return epochs

    @property
    def producers(self) -> ProducerState:
        if self._producers is None:
            self._producers = producers_at(self.segments, self.snapshots, self.written_offset)
        return self._producers

    @property
    def has_debts(self) -> bool:
        """Whether a sync of the records alone would not do: recovery relies on indexes and epochs below its starting
        point, and some of them are not written yet. `take_dirty_files` pays them.
        """
        return self._has_index_debts or (self._epochs is not None and self._epochs.changed)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed records must stop, if everything durable counts as replicated."""
        return self.stable_offset(self.durable_offset)

    def stable_offset(self, high_watermark: int) -> int:
        """Where readers of committed records must stop. The high watermark given must not go back."""
        producers = self._producers or self.producers
        if not producers.has_transactions:
            return high_watermark
        producers.forget_completed(high_watermark)
        first = producers.first_unstable_offset(high_watermark)
        return high_watermark if first is None else min(max(first, self.start_offset), high_watermark)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget idempotent producers that have been silent for so long."""
        if self._producers is not None:
            self._producers.expire(now_ms, expiration_ms)

    def ensure_directory(self) -> None:
        """Make the directory, with the topic's id in it. Any thread."""
        if not self._has_directory:
            self.disk.make_directory(self.directory)
            file = self.disk.open(f"{self.directory}/{names.PARTITION_METADATA}", create=True)
            file.pwritev((f"version: 0\ntopic_id: {topic_id_text(self.topic_id)}".encode(),), 0)
            self._new_metadata = file
            self._has_directory = True

    def unsynced_names(self) -> list[Syncable]:
        """What to sync so that a crash finds every file of the log, and whose they are."""
        targets: list[Syncable] = [FileSync(self._new_metadata)] if self._new_metadata is not None else []
        return targets + name_syncs(self.disk, self.directory) if self._names_unsynced else targets

    def _number(self, offset: int) -> int:
        """Which segment holds `offset`, if it is in the log at all."""
        return max(0, bisect_right(self.segments, offset, key=attrgetter("base_offset")) - 1)
