"""Which leader wrote which part of the log: the `leader-epoch-checkpoint` file.

Each epoch is kept with the offset at which its leader began to write. Two replicas that compare these find the last
offset on which they agree, which is how a follower knows what to cut before it fetches.

Every batch carries its leader's epoch, so after a crash the entries beyond the recovery point are found again by the
scan that recovery does anyway. That is why a new epoch need not reach the disk before its first batch does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ottla.errors import CorruptLogError

NO_EPOCH = -1
NO_OFFSET = -1
_VERSION = "0"


class LeaderEpochs:
    __slots__ = ("_epochs", "_starts", "changed")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.changed = False
        """Whether the file says something else."""

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, its first offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """The leader of `epoch` begins at `start_offset`. Entries that contradict this are from a history cut off."""
        if epoch < 0 or (self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]):
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            del self._epochs[-1], self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.changed = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch that is not above `epoch`, and where it ended; (-1, -1) if that can't be known."""
        if not self._epochs or epoch < 0 or epoch > self._epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        after = bisect_right(self._epochs, epoch)
        # Below all that is known: the data is gone, and the asker should go on from where ours begins.
        found = self._epochs[after - 1] if after else epoch
        return found, self._starts[after]

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at `offset` was written."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at `end_offset` or after it."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._epochs):
            del self._epochs[keep:], self._starts[keep:]
            self.changed = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at `start_offset`: the epoch written there begins there, older ones are forgotten."""
        gone = bisect_right(self._starts, start_offset) - 1
        if gone < 0 or (gone == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:gone], self._starts[:gone]
        self._starts[0] = start_offset
        self.changed = True

    def clear(self) -> None:
        self.truncate_from_end(0)

    def encode(self) -> bytes:
        lines = [_VERSION, str(len(self._epochs)), *(f"{epoch} {start}" for epoch, start in self.entries())]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs:
        lines = data.decode("ascii", "replace").splitlines()
        try:
            if lines[0] != _VERSION or int(lines[1]) != len(lines) - 2:
                raise ValueError
            entries = [tuple(map(int, line.split())) for line in lines[2:]]
            decoded = cls()
            for epoch, start in entries:
                decoded.assign(epoch, start)
        except (ValueError, IndexError):
            raise CorruptLogError("the leader epoch file is not what it should be") from None
        decoded.changed = False
        return decoded
