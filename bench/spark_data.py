"""The same rows in the same record batches for every broker: what Spark reads in the benchmarks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.protocol.compression import Compression
from pyspark_ottla.encoding import Encoder
from pyspark_ottla.producing import Sender, plain_identity
from pyspark_ottla.wire import Cluster

KEY_BYTES = 8
_AT_ONCE = 100_000
_TEMPLATE = (
    b'{"event":"0000000000000000","client":"client-0000","metric":"temperature","value":00.00,"at":1700000000000'
)
_FILLER = b',"note":"the quick brown fox jumps over the lazy dog and does it again"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What a topic holds: so many rows whose key and value together have `row_bytes`."""

    name: str
    rows: int
    row_bytes: int
    compression: Compression = Compression.NONE
    batch_bytes: int = 1_000_000


def fill(bootstrap: str, topic: Topic) -> None:
    with Cluster(bootstrap) as cluster:
        partitions = len(cluster.persist(lambda: cluster.topics([topic.name]))[topic.name].leaders)
        encoder = Encoder(topic.name, lambda _: partitions, topic.batch_bytes)
        sender = Sender(cluster, plain_identity(cluster), transactional_id=None, compression=topic.compression)
        for rows in _rows(topic):
            sender.send(encoder.encode(rows))
        sender.flush()


def _rows(topic: Topic) -> Iterator[pa.RecordBatch]:
    """JSON of which a third are digits that can't be foreseen, so that it compresses about as events do."""
    random = np.random.default_rng(7)
    value_bytes = topic.row_bytes - KEY_BYTES
    text = np.frombuffer((_TEMPLATE + _FILLER * (value_bytes // len(_FILLER) + 1))[:value_bytes], np.uint8)
    digits = np.flatnonzero((text >= ord("0")) & (text <= ord("9")))
    for first in range(0, topic.rows, _AT_ONCE):
        count = min(_AT_ONCE, topic.rows - first)
        values = np.tile(text, (count, 1))
        values[:, digits] = random.integers(ord("0"), ord("9") + 1, (count, len(digits)), np.uint8)
        keys = random.integers(ord("0"), ord("9") + 1, (count, KEY_BYTES), np.uint8)
        yield pa.record_batch({"key": _binary(keys), "value": _binary(values)})


def _binary(matrix: np.ndarray[Any, Any]) -> pa.Array:
    count, width = matrix.shape
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(matrix)])
