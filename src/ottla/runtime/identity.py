"""Who a data directory belongs to: `meta.properties`, in Kafka's format.

Written once, when a node first uses the directory. A node that finds another node's id in it refuses to start: the
directory was copied, or the configuration is wrong, and either way two nodes would take themselves for one.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from ottla.errors import ConfigError, StorageError
from ottla.ports import Disk, Random

FILE = "meta.properties"
FORMAT_VERSION = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    cluster_id: str
    node_id: int
    directory_id: bytes


def load_or_create(disk: Disk, node_id: int, random: Random) -> Identity:
    """Raises ConfigError if the directory belongs to another node."""
    if not disk.exists(FILE):
        identity = Identity(cluster_id=_text(random.randbytes(16)), node_id=node_id, directory_id=random.randbytes(16))
        _write(disk, identity)
        return identity
    identity = _read(disk)
    if identity.node_id != node_id:
        raise ConfigError(
            f"node_id is {node_id}, but the data directory belongs to node {identity.node_id}:"
            " start with that node_id, or with another data_dir"
        )
    return identity


def _read(disk: Disk) -> Identity:
    file = disk.open(FILE)
    text = file.pread(file.size(), 0).decode()
    file.close()
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    try:
        return Identity(
            cluster_id=values["cluster.id"],
            node_id=int(values["node.id"]),
            directory_id=base64.urlsafe_b64decode(values["directory.id"] + "=="),
        )
    except (KeyError, ValueError) as error:
        raise StorageError(f"{FILE} in the data directory can't be read: {error}") from error


def _write(disk: Disk, identity: Identity) -> None:
    """A crash leaves the old state or the new one: written aside, synced, then renamed."""
    lines = [
        f"version={FORMAT_VERSION}",
        f"cluster.id={identity.cluster_id}",
        f"node.id={identity.node_id}",
        f"directory.id={_text(identity.directory_id)}",
        "",
    ]
    disk.make_directory("")
    file = disk.open(FILE + ".tmp", create=True)
    file.truncate(0)
    file.pwritev(["\n".join(lines).encode()], 0)
    file.sync()
    file.close()
    disk.rename(FILE + ".tmp", FILE)
    disk.sync_directory("")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
