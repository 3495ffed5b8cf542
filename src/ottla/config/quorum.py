"""The quorum that keeps the metadata: its clock and what its log may grow to."""

from dataclasses import dataclass

from ottla.config.settings import check_limits, setting
from ottla.config.units import INT32_MAX, MIB, SECOND_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """Raft for the metadata log (decisions/0010)."""

    tick_ms: int = setting(50, at_least=1, at_most=INT32_MAX)
    """The unit of Raft's time: heartbeats and elections count in it. The same on all nodes."""
    snapshot_bytes: int = setting(20 * MIB, at_least=1, kafka=("metadata.log.max.record.bytes.between.snapshots",))
    """The metadata log is replaced by a snapshot of what it says once it has grown by this much."""

    voter_replace_ms: int = setting(30 * SECOND_MS, at_least=1_000)
    """A voter that has been silent for this long is replaced by a broker that is there, if there is one to spare."""

    def __post_init__(self) -> None:
        check_limits(self, "quorum.")
