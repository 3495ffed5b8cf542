"""What a committer has learnt of late: how quick the disk is, how many share a commit, whether requests follow at once.

Each is asked once for a commit, or once for a turn of the loop that waits for something, and knows nothing but counts.
"""

from __future__ import annotations

from typing import Final


class SyncPace:
    """Whether syncs have been quick lately, on average.

    Of syncs, not of commits: writing to hundreds of logs is work of this process, and a thread only adds to it. The
    average, and not what one in ten takes: on a machine that has more to do than processors, many syncs seem slow since
    their thread has to wait for its turn. Another thread would wait twice.
    """

    WINDOW: Final = 128
    OUTLIER: Final = 10
    """A sync counts as no more than this many times the bound: one that hangs for a second says little of the rest."""

    def __init__(self, slow_us: int) -> None:
        self._most_ns = self.OUTLIER * slow_us * 1_000
        self._sum_max_ns = self.WINDOW * slow_us * 1_000
        self._ring = [0] * self.WINDOW
        self._at = 0
        self._sum_ns = 0
        self.is_quick = slow_us > 0

    def record(self, took_ns: int) -> None:
        took_ns = min(took_ns, self._most_ns)
        at = self._at
        self._sum_ns += took_ns - self._ring[at]
        self._ring[at] = took_ns
        self._at = (at + 1) % self.WINDOW
        self.is_quick = self._sum_ns < self._sum_max_ns


class Gathering:
    """How many batches have shared a commit lately, and whether to wait for as many.

    In turns of the loop and not by the clock, which a simulation would stop: an idle turn took some 2 to 5 µs as
    pure Python, and a sync as much as fifty; compiled, a turn takes less, which is why there are more of them.
    """

    TURNS_MAX: Final = 80
    WORK_TURNS: Final = 27
    """What counts for a turn in which what a log holds was written."""

    def __init__(self) -> None:
        self._recent = [0] * 4
        self._at = 0
        self._turns = 0
        self._expected = 0

    def is_worth_it(self, count: int) -> bool:
        """Whether to wait another turn with a commit of `count` batches so far."""
        if 0 < count < self._expected and self._turns < self.TURNS_MAX:
            self._turns += 1
            return True
        self._turns = 0
        self._recent[self._at] = count
        self._at = (self._at + 1) % 4
        self._expected = max(self._recent)
        return False

    def has_worked(self) -> None:
        """The turn that it waits took as long as many idle ones."""
        self._turns += self.WORK_TURNS

    def has_slept(self) -> None:
        """Whoever was to come has come while it waits for this turn, or does not come soon."""
        self._turns = self.TURNS_MAX


class Lookout:
    """Whether to stay awake for a moment after an answer, and for how long, since the next request tends to follow.

    A lone writer sends its next record some 20 µs after it was answered. A process that has gone to sleep meanwhile
    wakes up with cold caches, and everything it then does takes several times as long: looking is the cheaper way to
    wait. One who sends at a pace of its own comes sooner or later, and to look out for that one costs more than to
    sleep. So one look in some is as long as any, and from when those found something it is learnt how long the others
    are, or that there are none. Where nothing came at all, it looks less and less often.
    """

    TURNS_MAX: Final = 80
    ANSWERS_MAX: Final = 16
    """With more at a time there is always one who sends."""
    SYNCED_ANSWERS_MAX: Final = 4
    """The same where commits are synced: a sync is a sleep too, so that there is less to gain."""
    PAUSE_MAX: Final = 256
    STEP: Final = 10
    """Looks are so many turns long, or some times that."""
    SLEEP_TURNS: Final = 60
    """What counts for a sleep, and for waking up from it."""
    FULL_EVERY: Final = 16
    """One look of so many is as long as any."""
    LEARN_FROM: Final = 64
    """Of those, before it is told anew how long the others are."""

    def __init__(self, answers_max: int) -> None:
        self._answers_max = answers_max
        self._turns = 0
        self._most = self.TURNS_MAX
        """Of the look that goes on."""
        self._length = self.TURNS_MAX
        """Of looks."""
        self._until_full = 0
        self._found = [0] * (self.TURNS_MAX // self.STEP + 1)
        """How many full looks found something in each step; at last, how many found nothing."""
        self._full = 0
        """How many there were since it was told how long looks are."""
        self._skip = 0
        """Commits after which not to look."""
        self._pause = 0
        """How many those were the last time."""

    def is_worth_it(self, answers: int) -> bool:
        """Whether to look, after a commit that answered so many."""
        if not 0 < answers <= self._answers_max:
            return False
        if self._skip:
            self._skip -= 1
            return False
        self._turns = 0
        self._until_full -= 1
        if self._until_full < 0:
            self._until_full = self.FULL_EVERY - 1
            self._most = self.TURNS_MAX
        else:
            self._most = self._length
        return self._most > 0

    def goes_on(self, has_come: bool) -> bool:
        """Whether to look for another turn."""
        if has_come:
            self._pause = 0
            self._learn(self._turns // self.STEP)
            return False
        self._turns += 1
        if self._turns < self._most:
            return True
        if self._most == self.TURNS_MAX:
            self._skip = self._pause = min(2 * self._pause + 1, self.PAUSE_MAX)
            self._learn(len(self._found) - 1)
        return False

    def _learn(self, step: int) -> None:
        """Of a full look, in which step it ended: shorter ones do not know what they would have found."""
        if self._most < self.TURNS_MAX:
            return
        self._found[step] += 1
        self._full += 1
        if self._full == self.LEARN_FROM:
            self._full = 0
            self._length = self._cheapest()
            self._found = [count // 2 for count in self._found]

    def _cheapest(self) -> int:
        """The length for which looking, and sleeping where it finds nothing, takes the fewest turns."""
        left = sum(self._found)
        cheapest, fewest = 0, left * self.SLEEP_TURNS
        looked = 0
        for step, count in enumerate(self._found[:-1]):
            looked += count * (step * self.STEP + self.STEP // 2)
            left -= count
            length = (step + 1) * self.STEP
            turns = looked + left * (length + self.SLEEP_TURNS)
            if turns < fewest:
                cheapest, fewest = length, turns
        return cheapest
