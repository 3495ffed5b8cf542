"""The file names of a partition's directory: those of Kafka, so that its tools find their way."""

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"

SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)

DELETED = ".deleted"
"""Added to the files of a removed segment. Whoever finds one at start-up may throw it away."""
TEMPORARY = ".tmp"
"""Added while a file that replaces another is being written."""
CLEANED = ".cleaned"
"""Added to the files that a compaction writes."""
SWAP = ".swap"
"""Added to them when they are whole, and about to take the place of others."""
LEFTOVERS = (DELETED, TEMPORARY, CLEANED, SWAP)
"""Endings of files that an interrupted operation left behind."""

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

_DIGITS = 20


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def offset_in_name(name: str, suffix: str) -> int | None:
    """The offset that a file is named after; None if it is not a file of that kind."""
    stem = name[:_DIGITS]
    if len(name) == _DIGITS + len(suffix) and name.endswith(suffix) and stem.isascii() and stem.isdigit():
        return int(stem)
    return None
