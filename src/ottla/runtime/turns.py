"""How long a node's turns at the processor are: short ones, so that it is let in soon among those who compute.

A node sleeps for each sync and for each request that it waits for, and whoever else has something to do takes the
processor meanwhile. When it wakes up, Linux (from 6.12 on) lets it in the sooner the shorter the turns are that it has
asked for; every process may ask, and gets no more time in all. A client that fills the machine beside its node gains by
that, as its records wait less (docs/decisions/0041-short-turns.md).

Several nodes on one machine would only cut each other short. So a node that knows of another one at its own host keeps
to the turns that everybody has.
"""

from __future__ import annotations

import os
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.runtime.c_library import address, system_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.config import BrokerConfig
    from ottla.metadata.image import MetadataImage

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
"""By kind of machine."""
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""Size, policy, flags, niceness, priority; and runtime, deadline, period in nanoseconds. The runtime of those who share
a processor is the length of their turns."""


class Turns:
    """Asks for short turns while no other node is on this machine, as far as the cluster's metadata tells."""

    def __init__(self, config: BrokerConfig, image: Callable[[], MetadataImage]) -> None:
        self._node_id = config.node_id
        self._host = config.advertised_host
        self._short_us = config.turn_us
        self._image = image
        self._asked_us = 0

    def choose(self) -> None:
        """In the node's thread: at first, and when brokers have come or gone."""
        wanted_us = 0 if self._is_crowded() else self._short_us
        if wanted_us != self._asked_us:
            self._asked_us = wanted_us
            ask_for(wanted_us)

    def _is_crowded(self) -> bool:
        return any(
            broker.client_endpoint.host == self._host
            for broker in self._image().brokers.values()
            if broker.broker_id != self._node_id and not broker.fenced
        )


def ask_for(turn_us: int) -> None:
    """Of this thread, and of those that it starts; 0 for what everybody has. A system that can't leaves it as it is."""
    if sys.platform != "linux":
        return
    policy = os.sched_getscheduler(0)
    if policy in (os.SCHED_OTHER, os.SCHED_BATCH):
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        asked = bytearray(_ATTRIBUTES.pack(_ATTRIBUTES.size, policy, 0, niceness, 0, turn_us * 1_000, 0, 0))
        with suppress(OSError):  # what a sandbox refuses is done without
            system_call(_SCHED_SETATTR, 0, address(asked), 0)


def turn_us(thread_id: int = 0) -> int:
    """Of this thread or another one; 0 where the system does not tell."""
    told = bytearray(_ATTRIBUTES.size)
    with suppress(OSError):
        system_call(_SCHED_GETATTR, thread_id, address(told), len(told), 0)
    runtime_ns: int = _ATTRIBUTES.unpack(told)[5]
    return runtime_ns // 1_000
