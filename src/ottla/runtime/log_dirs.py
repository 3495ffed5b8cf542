"""How much of the disk the node has, and how much of it each partition takes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.runtime.partitions import Partitions


class NodeLogDirs:
    def __init__(self, path: str, partitions: Partitions) -> None:
        self.path = os.path.abspath(path)
        self._partitions = partitions

    def total_bytes(self) -> int:
        stats = os.statvfs(self.path)
        return stats.f_blocks * stats.f_frsize

    def usable_bytes(self) -> int:
        stats = os.statvfs(self.path)
        return stats.f_bavail * stats.f_frsize

    def size_bytes(self, topic: str, index: int) -> int:
        return self._partitions.log_of(topic, index).size_bytes
