"""Acknowledgements in any order, turned into one offset per partition.

A group keeps one number per partition: everything below is done. So with messages acknowledged out of order, what may
be committed is the lowest one that is still open, and what is done beyond it is only remembered here.
"""

from collections import deque

from ottla.types import TopicPartition


class _Partition:
    """Offsets that were handed out, in order, until they and all before them are done."""

    __slots__ = ("done", "next_offset", "open")

    def __init__(self) -> None:
        self.open: deque[int] = deque()
        self.done: set[int] = set()
        self.next_offset = -1

    def settle(self) -> bool:
        """Drop what is done at the head; whether the offset to commit has moved."""
        before = self.next_offset
        while self.open and self.open[0] in self.done:
            offset = self.open.popleft()
            self.done.remove(offset)
            self.next_offset = offset + 1
        return self.next_offset != before


class AckTracker:
    """Of one consumer; partitions come with their first message and go when they are dropped."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._moved: set[TopicPartition] = set()

    def handed_out(self, at: TopicPartition, offset: int) -> None:
        self._partitions.setdefault(at, _Partition()).open.append(offset)

    def ack(self, at: TopicPartition, offset: int) -> None:
        """Of a partition that was lost meanwhile, it is of no use any more: its next owner reads the message again."""
        partition = self._partitions.get(at)
        if partition is None or offset < partition.next_offset:
            return
        partition.done.add(offset)
        if partition.settle():
            self._moved.add(at)

    def take_moved(self) -> dict[TopicPartition, int]:
        """What should be committed: the offsets that have moved since the last call."""
        moved = {at: self._partitions[at].next_offset for at in self._moved if at in self._partitions}
        self._moved.clear()
        return moved

    def drop(self, at: TopicPartition) -> None:
        self._partitions.pop(at, None)
        self._moved.discard(at)

    def open_count(self) -> int:
        """Messages that were handed out and are not acknowledged."""
        return sum(len(partition.open) - len(partition.done) for partition in self._partitions.values())
