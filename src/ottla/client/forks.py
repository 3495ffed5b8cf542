"""Noticing that this process is a fork.

librdkafka's threads do not survive a fork: a client used in the child would wait forever. Every client remembers the
generation it was made in and refuses to work in another.
"""

import os


class _Forks:
    """Counts the forks between the first process and this one."""

    __slots__ = ("generation",)

    def __init__(self) -> None:
        self.generation = 0
        os.register_at_fork(after_in_child=self._count)

    def _count(self) -> None:
        self.generation += 1


forks = _Forks()
