"""Compaction: what it may take while clients are served."""

import sys
from dataclasses import dataclass

from ottla.config.settings import check_limits, setting
from ottla.config.units import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The log cleaner, which compacts topics whose cleanup.policy says so."""

    enable: bool = setting(True, kafka=("log.cleaner.enable",))
    """Whether logs are compacted at all. The topics of groups and transactions grow without end if they are not."""
    dedupe_buffer_bytes: int = setting(128 * MIB, at_least=MIB, kafka=("log.cleaner.dedupe.buffer.size",))
    """Memory for the keys of one compaction, in a process of its own that ends with it: 256 bytes a key. What does not
    fit is compacted the next time."""
    io_max_bytes_per_second: float = setting(
        sys.float_info.max, at_least=1024.0, kafka=("log.cleaner.io.max.bytes.per.second",)
    )
    """Reading and writing of compaction together is kept below this."""
    backoff_ms: int = setting(15_000, at_least=1, kafka=("log.cleaner.backoff.ms",))
    """The time between two looks for something to compact, when the last one found nothing."""

    def __post_init__(self) -> None:
        check_limits(self, "cleaner.")
