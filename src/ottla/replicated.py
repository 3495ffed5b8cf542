"""The contract of every replicated state machine: the controller, the groups, the transactions.

A shard is plain Python with no I/O. Its request methods *decide*: they read state and return a `Result`. The runtime
then appends `records` to the shard's log, calls `replay` with each of them in log order, and once they are durable
(and, in a cluster, replicated) sends the answers. `replay` is the only code that changes what the log holds, and it
sees the same records in the same order whether they were just written, recovered after a crash or replicated: one
path for all.

What is not in the log (who is waiting in a join, when a session ends) is soft state. A shard may change it while it
decides, and loses it with leadership; clients recover from that by themselves.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from ottla.values import value

Record = TypeVar("Record")
RecordIn = TypeVar("RecordIn", contravariant=True)
Response = TypeVar("Response")


class Token:
    """Stands for a caller that waits for its answer. The runtime makes them; a shard only keeps and returns them."""

    __slots__ = ()


@value
class Reply:
    """The answer to a caller that has been waiting."""

    token: Token
    response: object


@value
class Result(Generic[Record, Response]):
    """What a shard decided, in the order in which it must happen."""

    records: Sequence[Record] = ()
    """1. Appended, replayed, and durable before anything below leaves the node. All of them or none."""
    response: Response | None = None
    """2. To the caller. None: the caller waits, and its answer is among the `replies` of a later result."""
    replies: Sequence[Reply] = ()
    """2. To callers who have been waiting."""


class Shard(Protocol[RecordIn]):
    """What the runtime needs of a state machine besides its request methods."""

    def replay(self, record: RecordIn) -> None:
        """Change the state. Deterministic; never fails on a record that was once written."""

    def next_deadline_ms(self) -> int | None:
        """When `tick` should next be called, in the time that requests are given; None: no timer is set."""
