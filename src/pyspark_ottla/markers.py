"""Exactly once on clusters without commits in two phases: a mark of each task inside of its own transaction.

    task p      1. starts `<query>-p`: what an earlier run left open under it is aborted, and can't be committed again
                2. looks for its mark of this batch (group `<query>-p`). Found: counts its rows and writes nothing
                3. writes its rows and its mark (batch + 1, and how many rows) in one transaction, and leaves it open
    driver      4. aborts what tasks of an earlier run that had more of them left open
                5. notes in group `<query>` that this batch has so many tasks; if an earlier run had noted another
                   number and any of its tasks was committed, fails
                6. commits every task, one after the other

A batch that is run again writes what was not committed, since the rows and the mark of a task become visible together.
Two things are weaker than in `two_phase`: a driver that dies in step 6 leaves a part of the batch visible until the
next run completes it, and the rows must fall into the same tasks again. The second is checked as far as it can be seen
from here: the number of tasks, and the number of rows of each task that was committed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark_ottla.producing import Identity
from pyspark_ottla.transactions import (
    FENCED,
    NOT_OURS,
    Mark,
    commit_mark,
    end,
    marks,
    open_transactions,
    start,
    write_mark,
)
from pyspark_ottla.two_phase import INTENT, BatchLostError
from pyspark_ottla.wire import Cluster, WireError

__all__ = ["Marked", "Markers", "RowsMovedError"]

ASSUMPTION: Final = (
    "the cluster has no commits in two phases: query %s writes with a mark per task. That is exactly once as long as a"
    " batch that is run again has the same rows in the same tasks, and takes less than kafka.transaction.timeout.ms;"
    " a part of a batch is visible while it is being committed, and if the driver dies then, until the query runs again"
)

log = logging.getLogger(__name__)


class RowsMovedError(Exception):
    """A part of the batch is committed, and what is run now has other tasks: going on would repeat or lose rows."""


class Started(NamedTuple):
    writer: Identity
    rows: int | None
    """How many an earlier run has committed for this task; None: it has not, they are to be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """What a task tells the driver."""

    task: int
    writer: Identity | None
    """None: nothing was written, since there were no rows or an earlier run had committed them."""
    topic: str | None
    """One that was written to."""


class Markers:
    """The protocol, for one batch of one query."""

    def __init__(self, cluster: Cluster, query: str, batch: int, timeout_ms: int) -> None:
        self._cluster = cluster
        self._query = query
        self._batch = batch
        self._timeout_ms = timeout_ms
        self.group = f"ottla-spark-{query}"

    def transactional_id(self, task: int) -> str:
        return f"{self.group}-{task}"

    # In tasks

    def begin(self, task: int) -> Started:
        """Steps 1 and 2."""
        _say_what_is_assumed(self._query)
        writer = start(self._cluster, self.transactional_id(task), self._timeout_ms)
        self._refuse_decision()
        return Started(writer, self._committed_rows(task))

    def mark(self, task: int, writer: Identity, topic: str, rows: int) -> None:
        """The second half of step 3."""
        name = self.transactional_id(task)
        commit_mark(self._cluster, name, writer, group=name, topic=topic, mark=Mark(self._batch + 1, str(rows)))

    def check_rows(self, task: int, committed: int, now: int) -> None:
        if committed != now:
            raise RowsMovedError(
                f"batch {self._batch}: task {task} has {now} rows now, and had {committed} when they were committed."
                " The rows of a batch that is run again must fall into the same tasks, on a cluster without commits"
                " in two phases: see docs/SPARK.md"
            )

    def give_up(self, task: int, writer: Identity) -> None:
        """After a failure in the middle of writing. If another attempt has taken over, there is nothing to do."""
        self._abort(task, writer)

    # In the driver

    def commit(self, messages: Sequence[Marked]) -> None:
        self._abort_left_over(from_task=len(messages))
        topic = next((message.topic for message in messages if message.topic is not None), None)
        self._note_count(len(messages), topic)
        for message in sorted(messages, key=lambda message: message.task):
            if message.writer is not None:
                self._commit_one(message.task, message.writer)

    def abort(self, messages: Sequence[Marked]) -> None:
        """What is committed stays so: its identity is void."""
        for message in messages:
            if message.writer is not None:
                self._abort(message.task, message.writer)

    def _commit_one(self, task: int, writer: Identity) -> None:
        try:
            end(self._cluster, self.transactional_id(task), writer, commits=True)
        except WireError as error:
            if error.code in FENCED:
                raise BatchLostError(
                    f"batch {self._batch}: the transaction of task {task} was taken over by another run, or took"
                    " longer than kafka.transaction.timeout.ms"
                ) from error
            raise

    def _abort(self, task: int, writer: Identity) -> None:
        try:
            end(self._cluster, self.transactional_id(task), writer, commits=False)
        except WireError as error:
            if error.code not in NOT_OURS:
                raise

    def _abort_left_over(self, from_task: int) -> None:
        for name in open_transactions(self._cluster, f"{self.group}-"):
            task = name.removeprefix(f"{self.group}-")
            if task.isdigit() and int(task) >= from_task:
                start(self._cluster, name, self._timeout_ms)

    # Notes

    def _refuse_decision(self) -> None:
        found = self._newest(self.group)
        if found is not None and found.number > self._batch and not found.note.startswith(INTENT):
            raise RowsMovedError(
                f"batch {self._batch} was committed in two phases, which the cluster does not allow any more:"
                " let it finish what it has decided (transaction_two_phase_commit_enable) before changing that"
            )

    def _committed_rows(self, task: int) -> int | None:
        found = self._newest(self.transactional_id(task))
        if found is None or found.number <= self._batch:
            return None
        return int(found.note)

    def _note_count(self, count: int, topic: str | None) -> None:
        found = self._newest(self.group)
        if found is not None and found.number == self._batch + 1:
            noted = int(found.note.removeprefix(INTENT))
            if noted != count and any(self._committed_rows(task) is not None for task in range(noted)):
                raise RowsMovedError(
                    f"batch {self._batch} has {count} tasks now, and had {noted} when a part of it was committed. The"
                    " rows of a batch that is run again must fall into the same tasks, on a cluster without commits"
                    " in two phases: set the number of partitions back (minPartitions, spark.sql.shuffle.partitions)"
                )
        if topic is not None:
            write_mark(self._cluster, group=self.group, topic=topic, mark=Mark(self._batch + 1, f"{INTENT}{count}"))

    def _newest(self, group: str) -> Mark | None:
        return max(marks(self._cluster, group), default=None)


@functools.lru_cache(maxsize=100)
def _say_what_is_assumed(query: str) -> None:
    """Once per process."""
    log.warning(ASSUMPTION, query)
