"""Spark's Python workers are used again and again: what keeps a task in them cheap.

After every task Spark has Python look for garbage in all that the process holds. Numba, pyarrow and what else a worker
has loaded is a million objects that never go away: 80 ms each time, which is more than a small task itself takes.
The C library gives every buffer of some megabytes back to the system, which then has to zero its pages anew. And the
brokers are the same for the next task, so connections are kept.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark_ottla.wire import CLIENT_ID, Cluster

__all__ = ["connected"]

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Free memory that stays with the process, and the largest buffer that is taken from it."""

_clusters: dict[tuple[str, str], Cluster] = {}
"""Of this process, by their addresses and who asks: those that no task uses now."""


@contextmanager
def connected(bootstrap: str, timeout_s: float, client_id: str = CLIENT_ID) -> Iterator[Cluster]:
    """A cluster for one task, connected to already if a task of this process used it before.

    What is known of topics is asked anew. After a failure connections are not used again: answers may be under way.
    """
    cluster = _clusters.pop((bootstrap, client_id), None) or Cluster(bootstrap, client_id=client_id)
    cluster.timeout_s = timeout_s
    cluster.forget_topics()
    if not gc.get_freeze_count():
        _keep_memory()
    try:
        yield cluster
    except BaseException:
        cluster.close()
        raise
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
    if _clusters.setdefault((bootstrap, client_id), cluster) is not cluster:
        cluster.close()


@atexit.register
def _disconnect() -> None:
    for cluster in _clusters.values():
        cluster.close()


def _keep_memory() -> None:
    """Where the C library is not glibc, nothing happens."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
