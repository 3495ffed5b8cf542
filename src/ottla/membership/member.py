"""What is known of a member: who it is, where it is, how it is, and how much it carries."""

from enum import IntEnum
from typing import NamedTuple

from ottla.values import value

NODE_ID_MAX = 2**31 - 1
UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Status(IntEnum):
    """In the order of what one incarnation goes through: a later one overrules an earlier one."""

    ALIVE = 0
    SUSPECT = 1
    """Somebody got no answer from it. It may still say that it is alive, by raising its incarnation."""
    FAILED = 2
    """It was suspected and said nothing in time. It may come back, with a higher incarnation."""
    LEFT = 3
    """It said that it goes. Only a new process of it can come back."""


class Load(NamedTuple):
    """What a node carries, over its last few seconds: for balancing, so rough is good enough."""

    bytes_in_per_s: int = 0
    bytes_out_per_s: int = 0
    requests_per_s: int = 0
    partitions: int = 0
    leaders: int = 0


NO_LOAD = Load()


@value
class Member:
    """One member as this node sees it at one moment."""

    node_id: int
    run_id: int
    """Which process of this node: a later one has a higher number."""
    incarnation: int = 0
    """Only the member itself raises it, to say that it is alive after all."""
    status: Status = Status.ALIVE
    gossip: Address
    kafka: Address
    rack: str | None = None
    load: Load = NO_LOAD
    load_version: int = 0
    since_ms: int = 0
    """When it came to be in this status, by this node's own clock."""

    @property
    def is_live(self) -> bool:
        """Not known to be gone: a suspect counts as live."""
        return self.status <= Status.SUSPECT
