"""Times at which what happens again and again happens together.

A node that does nothing still probes others, and sends heartbeats to its controller and from its quorum. Each of these
wakes it, and those it speaks to; what a wake-up costs is mostly the waking up. So they are put on beats, the multiples
of their interval on the monotonic clock: then a node wakes once for all of them, and so do its neighbours on the same
machine, whose clock is the same.
"""

from __future__ import annotations


def towards_beat_ms(due_ms: int, every_ms: int) -> int:
    """The first beat that is not before `due_ms`, or a quarter of the interval later if that is not enough.

    So what was late once, and counts its interval from then, is on the beat again after four times, none of which
    keeps others waiting for much longer than usual.
    """
    return due_ms + min(-due_ms % every_ms, every_ms // 4)


def nearest_beat_ms(due_ms: int, every_ms: int) -> int:
    """For what counts its interval from some moment after the last beat: half an interval early or late at most."""
    return (due_ms + every_ms // 2) // every_ms * every_ms


def last_beat_ms(due_ms: int, every_ms: int) -> int:
    """For what may come early, but not late."""
    return due_ms - due_ms % every_ms
