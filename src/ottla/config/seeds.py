"""Seeds: cluster addresses of nodes, as people write them."""

import re
from collections.abc import Iterable

from ottla.config.settings import refused

CLUSTER_PORT_DEFAULT = 7946
"""Where `ottla start` listens for other nodes if nothing else is said, and where a seed without a port is."""
PORT_MAX = 65_535

_SEED = re.compile(r"(?:\[(?P<ipv6>[0-9a-f:.%]+)\]|(?P<host>[^\s:\[\],/]+))(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)


def split_seed(seed: str) -> tuple[str, int]:
    """`host:port`, `host` or `[::1]:port` as a host, in lower case, and a port."""
    found = _SEED.fullmatch(seed.strip())
    port = int(found["port"] or CLUSTER_PORT_DEFAULT) if found else 0
    if found is None or not 0 < port <= PORT_MAX:
        raise refused("seeds", seed, "host:port, the cluster address of a node")
    return (found["ipv6"] or found["host"]).lower(), port


def join_seed(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def seed_names(seeds: Iterable[str]) -> tuple[str, ...]:
    """The same seeds in one form and order, however they were written."""
    return tuple(sorted({join_seed(*split_seed(seed)) for seed in seeds}))
