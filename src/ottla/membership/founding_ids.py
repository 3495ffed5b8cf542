"""Digests by which founders compare what they know, and the cluster id that comes of them."""

import base64
import hashlib
from collections.abc import Iterable, Sequence

from ottla.membership.founding_wire import DIGEST_BYTES, NO_DIGEST, Founder


def seeds_digest(seeds: Iterable[str]) -> bytes:
    """The same for the same seeds in any order."""
    names = sorted(set(seeds))
    return _digest("\n".join(names).encode()) if names else NO_DIGEST


def founders_digest(founders: Iterable[Founder]) -> bytes:
    return _digest(_bytes_of(sorted(founders)))


def cluster_id_of(founders: Iterable[Founder]) -> str:
    """In Kafka's form: 16 bytes in URL-safe base64, of which the first is no dash, since tools take it for a flag."""
    founded_by = _bytes_of(sorted(founders))
    salt = 0
    while (text := _text(_digest(b"cluster %d " % salt + founded_by))).startswith("-"):
        salt += 1
    return text


def _bytes_of(founders: Sequence[Founder]) -> bytes:
    return b"".join(founder.node_id.to_bytes(4) + founder.directory_id for founder in founders)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:DIGEST_BYTES]


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
