"""Exactly once, and a whole batch at once: prepared transactions and one decision.

    task p      1. takes over `<query>-p`; whoever wrote under it before can do nothing any more
                2. starts `<query>-decision`: whoever was about to decide an earlier run can't any more
                3. looks for the decision of this batch. Found: writes nothing
                4. aborts what 1 found open, writes its rows, leaves its transaction open: prepared
    driver      5. takes over every `<query>-p` that wrote, and finds what task p said it wrote
                6. decides: a mark (batch + 1, and who wrote) of group `<query>`, committed in a transaction of
                   `<query>-decision` under the newest identity that a task got in step 2
                7. commits every `<query>-p`

Spark runs a batch again after a crash, and may do so while an orphan of the first run still goes on. Until 6 nothing is
visible; an orphan that has not decided never will, since any task of the new run has passed step 2 before it looked;
and one that has is found in step 3, upon which the driver only does 7 again. No attempt that is late can abort what
was decided: in step 5 it lost its id, and if it takes it back it comes by step 3, or by step 2 before 6, which then
fails. An abort that Spark asks for goes by the same steps, so it can't undo a decision either.

Spark aborts a batch when a task has failed, while others may be writing, or not have begun. So that none of them leaves
a transaction open that nobody ends, an abort first starts `<query>-aborts` and then takes over the ids of all tasks.
The driver has noted who held that id when it planned the batch, and a task that finds somebody else in it, after step
1, goes no further. A task that has not seen the abort there has had its id before the abort took it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark_ottla.producing import Identity
from pyspark_ottla.transactions import (
    FENCED,
    Mark,
    commit_mark,
    end,
    holder,
    marks,
    open_transactions,
    start,
    take_over,
)
from pyspark_ottla.wire import Cluster, WireError

__all__ = ["INTENT", "BatchLostError", "Prepared", "TwoPhase"]

DECISION_TIMEOUT_MS: Final = 60_000
INTENT: Final = "tasks="
"""How the note of a batch without two phases begins (`markers`), which is no decision."""


class BatchLostError(Exception):
    """Another run of the batch has taken over, or it was aborted. Nothing was decided by this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What a task tells the driver."""

    task: int
    decider: Identity
    is_decided: bool
    """The batch was decided by an earlier run: nothing was written."""
    writer: Identity | None = None
    """None: there were no rows."""
    topic: str | None = None
    """One that was written to."""


class Begun(NamedTuple):
    """What a task has when it begins."""

    writer: Identity
    decider: Identity
    is_decided: bool
    """An earlier run has decided the batch: there is nothing to write."""


class TwoPhase:
    """The protocol, for one batch of one query."""

    def __init__(self, cluster: Cluster, query: str, batch: int, planned: Identity | None = None) -> None:
        """`planned`: what `last_abort` was when the batch was planned, if that is known."""
        self._cluster = cluster
        self._batch = batch
        self._planned = planned
        self.group = f"ottla-spark-{query}"

    def transactional_id(self, task: int) -> str:
        return f"{self.group}-{task}"

    @property
    def _decision_id(self) -> str:
        return f"{self.group}-decision"

    @property
    def _aborts_id(self) -> str:
        return f"{self.group}-aborts"

    # In tasks

    def begin(self, task: int) -> Begun:
        """Steps 1 to 4, but for the writing."""
        name = self.transactional_id(task)
        self._require_not_aborted()  # a task that is late should not take the id from one that is not
        taken = take_over(self._cluster, name)
        self._require_not_aborted()
        decider = start(self._cluster, self._decision_id, DECISION_TIMEOUT_MS)
        if self._decision() is not None:
            return Begun(taken.identity, decider, True)
        if taken.prepared is None:
            return Begun(taken.identity, decider, False)
        return Begun(end(self._cluster, name, taken.identity, commits=False), decider, False)

    def _require_not_aborted(self) -> None:
        if self._planned is not None and self.last_abort() > self._planned:
            raise BatchLostError(f"batch {self._batch} was aborted before this task began")

    def give_up(self, task: int, writer: Identity) -> None:
        """After a failure in the middle of writing. If another attempt has taken over, there is nothing to do."""
        try:
            end(self._cluster, self.transactional_id(task), writer, commits=False)
        except WireError as error:
            if error.code not in FENCED:
                raise

    # In the driver

    def last_abort(self) -> Identity:
        """Of any batch of the query: greater after each."""
        return holder(self._cluster, self._aborts_id)

    def commit(self, prepared: Sequence[Prepared]) -> None:
        if any(message.is_decided for message in prepared):
            self._finish()
            return
        writers = [message for message in prepared if message.writer is not None]
        if writers:
            taken = [(message.task, self._take_prepared(message)) for message in writers]
            self._decide(prepared, writers)
            for task, identity in taken:
                self._commit_one(task, identity)
        self._abort_left_over(from_task=len(prepared))

    def abort(self, task_count: int) -> None:
        """End what is open: commit it if the batch was decided after all. No task of the batch opens anything later."""
        start(self._cluster, self._aborts_id, DECISION_TIMEOUT_MS)
        names = {self.transactional_id(task) for task in range(task_count)}
        names |= set(open_transactions(self._cluster, f"{self.group}-")) - {self._decision_id}
        taken = {name: take_over(self._cluster, name) for name in names}
        start(self._cluster, self._decision_id, DECISION_TIMEOUT_MS)
        if self._decision() is not None:
            self._finish()
            return
        for name, (identity, transaction) in taken.items():
            if transaction is not None:
                end(self._cluster, name, identity, commits=False)

    def _take_prepared(self, message: Prepared) -> Identity:
        taken = take_over(self._cluster, self.transactional_id(message.task))
        if taken.prepared != message.writer:
            raise BatchLostError(f"batch {self._batch}: the transaction of task {message.task} is not there any more")
        return taken.identity

    def _decide(self, prepared: Sequence[Prepared], writers: Sequence[Prepared]) -> None:
        decider = max(message.decider for message in prepared)
        topic = min(message.topic for message in writers if message.topic is not None)
        mark = Mark(self._batch + 1, _note(message.task for message in writers))
        try:
            commit_mark(self._cluster, self._decision_id, decider, group=self.group, topic=topic, mark=mark)
            end(self._cluster, self._decision_id, decider, commits=True)
        except WireError as error:
            if error.code in FENCED:
                raise BatchLostError(f"batch {self._batch} is being written by another run of the query") from error
            raise

    def _decision(self) -> Mark | None:
        """That of this batch. Later ones count too: Spark does not begin a batch before the last is decided."""
        found = max(marks(self._cluster, self.group), default=None)
        if found is None or found.number <= self._batch:
            return None
        if found.note.startswith(INTENT):
            raise BatchLostError(
                f"batch {self._batch} was begun without commits in two phases, and a part of it may be committed: let"
                " the query finish it on the cluster as it was (transaction_two_phase_commit_enable: false)"
            )
        return found

    def _finish(self) -> None:
        """Commit what an earlier run has decided and not ended."""
        decision = self._decision()
        if decision is None:
            raise BatchLostError(f"batch {self._batch}: its decision is not there any more")
        for task in _tasks(decision.note):
            self._commit_one(task, None)

    def _commit_one(self, task: int, identity: Identity | None) -> None:
        """After the decision. `identity`: ours, if we have taken the id over and nobody else has since."""
        name = self.transactional_id(task)
        while True:
            if identity is None:
                identity, prepared = take_over(self._cluster, name)
                if prepared is None:
                    return
            try:
                end(self._cluster, name, identity, commits=True)
            except WireError as error:
                if error.code not in FENCED:
                    raise
                identity = None
            else:
                return

    def _abort_left_over(self, from_task: int) -> None:
        """Of tasks that an earlier run had, and was killed in, and this one has no more."""
        for name in open_transactions(self._cluster, f"{self.group}-"):
            task = name.removeprefix(f"{self.group}-")
            if task.isdigit() and int(task) >= from_task:
                identity, prepared = take_over(self._cluster, name)
                if prepared is not None:
                    end(self._cluster, name, identity, commits=False)


def _note(tasks: Iterable[int]) -> str:
    """Which tasks wrote, as a number in hexadecimal whose bits they are: short, since a note has 4,096 characters."""
    return f"{sum(1 << task for task in tasks):x}"


def _tasks(note: str) -> list[int]:
    bits = int(note, 16)
    return [task for task in range(bits.bit_length()) if bits >> task & 1]
