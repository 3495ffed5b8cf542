"""The numbers of a Raft node. Time is counted in ticks; how long a tick is, is the runtime's business."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.errors import ConfigError

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    """The defaults are for ticks of about 50 ms: a dead leader is replaced in half a second to a second."""

    election_ticks: int = 10
    """A follower that hears nothing from the leader for this long, up to twice as long by chance, campaigns; a leader
    that hears nothing from a majority for this long steps down."""
    heartbeat_ticks: int = 4
    message_bytes_max: int = 256 * KIB
    """Entries in one message. An entry that is larger travels alone."""
    inflight_messages_max: int = 64
    """Messages with entries on their way to one follower."""
    inflight_bytes_max: int = 4 * MIB
    """Bytes of entries on their way to one follower; what a slow one can cost in memory."""
    uncommitted_bytes_max: int = 16 * MIB
    """Proposals that wait for a majority. Beyond that they are refused, or a leader that lost its followers would fill
    its memory."""
    committed_bytes_max: int = 1 * MIB
    """Committed entries in one `Ready`."""
    pending_reads_max: int = 4096
    observers_max: int = 1024
    snapshot_ticks: int = 600
    """A follower that has not said for this long that it has its snapshot is offered it again."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1")
        if self.election_ticks <= self.heartbeat_ticks:
            raise ConfigError(
                f"election_ticks ({self.election_ticks}) must be more than heartbeat_ticks ({self.heartbeat_ticks}): "
                "otherwise followers campaign between two heartbeats"
            )
