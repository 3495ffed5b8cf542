"""Which partition of `__consumer_offsets` a group belongs to: Kafka's own rule, so that its logs can be taken over."""

from functools import lru_cache
from struct import unpack

_INT32_MIN = -(2**31)


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, modulo 2^32, signed."""
    raw = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for unit in unpack(f">{len(raw) // 2}H", raw):
        hashed = (hashed * 31 + unit) & 0xFFFFFFFF
    return hashed - 2**32 if hashed >= 2**31 else hashed


@lru_cache(maxsize=4096)  # asked on every heartbeat of every member
def partition_for_group(group_id: str, partitions: int) -> int:
    hashed = java_string_hash(group_id)
    return (0 if hashed == _INT32_MIN else abs(hashed)) % partitions
