"""Which partition a key belongs to: the same as for Kafka's own clients, so that both may write to one topic."""

from __future__ import annotations

import struct
from functools import lru_cache

SEED = 0x9747B28C
M = 0x5BD1E995
MASK = 0xFFFFFFFF
POSITIVE = 0x7FFFFFFF


@lru_cache(maxsize=16_384)
def partition_of(key: bytes, count: int) -> int:
    return (murmur2(key) & POSITIVE) % count


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits, by Austin Appleby, with Kafka's seed."""
    size = len(data)
    hashed = SEED ^ size
    whole = size & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = (word * M) & MASK
        mixed ^= mixed >> 24
        hashed = ((hashed * M) & MASK) ^ ((mixed * M) & MASK)
    if size > whole:
        hashed = ((hashed ^ int.from_bytes(data[whole:], "little")) * M) & MASK
    hashed = ((hashed ^ (hashed >> 13)) * M) & MASK
    return hashed ^ (hashed >> 15)
