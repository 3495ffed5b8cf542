"""What a workload is given."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from bench.servers import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How long to look."""

    seconds: float
    warmup_s: float
    jit_s_max: float = 50.0
    """A JVM of the client that still compiles after the warm-up gets so much more of it."""
    data_scale: float = 1.0
    """Multiplies what is written before a consume run."""
    starts: int = 3
    idle_s: float = 5.0
    recovery_gb: float = 10.0
    """What a server holds when it is killed to see how it comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a workload gets: the server, how long to look, and a way to start another server of the same kind."""

    server: Server
    windows: Windows
    spare: Callable[[], Server]
    """It notices failures as usual, and is not to be paused."""
    lent: Callable[[], AbstractContextManager[None]] = nullcontext
    """What is written while this lasts goes into warm memory, for a workload that `lends` by itself."""
