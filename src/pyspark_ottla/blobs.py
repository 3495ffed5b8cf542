"""A column of byte strings as the compiled loops want it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Blobs"]


class Blobs:
    """Where each ends, which are there, and their bytes; nulls only if there is no column."""

    def __init__(self, column: pa.Array | None, count: int) -> None:
        if column is None:
            self.ends = np.zeros(count + 1, np.int32)
            self.valid = np.zeros(count, np.uint8)
            self.data = np.zeros(0, np.uint8)
            return
        column = pc.cast(column, pa.binary())
        if column.offset:
            column = pa.concat_arrays([column, pa.array([], pa.binary())])
        _, ends, data = column.buffers()
        at = column.offset
        self.ends = np.frombuffer(ends, np.int32)[at : at + count + 1] if count else np.zeros(1, np.int32)
        self.valid = column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        self.data = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)

    @property
    def size_bytes(self) -> int:
        return int(self.ends[-1]) - int(self.ends[0])
