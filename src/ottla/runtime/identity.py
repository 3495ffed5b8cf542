"""Who a data directory belongs to: `meta.properties`, in Kafka's format.

Node id and directory id are written when a node first uses the directory. The cluster's id, and those who founded it,
are added once there is a cluster: both in one write, since a founder that knew its cluster and not its voters could
never help to elect a leader. A node that finds another node's id refuses to start: the directory was copied, or the
configuration is wrong, and either way two nodes would take themselves for one.
"""

from __future__ import annotations

import base64
from dataclasses import replace

from ottla.errors import ConfigError, StorageError
from ottla.membership.founding import Formed
from ottla.membership.founding_wire import Founder
from ottla.ports import Disk, Random
from ottla.values import value

FILE = "meta.properties"
FORMAT_VERSION = "1"
DIRECTORY_ID_BYTES = 16


@value
class Identity:
    node_id: int
    directory_id: bytes
    cluster_id: str = ""
    """Empty until the node has a cluster."""
    voters: tuple[Founder, ...] = ()
    """Those by whom the cluster was founded: the first voters of its metadata log."""

    @property
    def founder(self) -> Founder:
        return Founder(self.node_id, self.directory_id)

    @property
    def is_founder(self) -> bool:
        """Whether this directory is one of those that the cluster began with: if not, the node began as an observer."""
        return self.founder in self.voters

    @property
    def formed(self) -> Formed | None:
        if not self.cluster_id:
            return None
        return Formed(cluster_id=self.cluster_id, voters=self.voters, is_founder=self.is_founder)

    def of(self, formed: Formed) -> Identity:
        return replace(self, cluster_id=formed.cluster_id, voters=formed.voters)


def load(disk: Disk, node_id: int) -> Identity | None:
    """None if nobody has used the directory yet. Raises ConfigError if it belongs to another node."""
    if not disk.exists(FILE):
        return None
    identity = _read(disk)
    if identity.node_id != node_id:
        raise ConfigError(
            f"node_id is {node_id}, but the data directory belongs to node {identity.node_id}:"
            " start with that node_id, or with another data_dir"
        )
    return identity


def new(node_id: int, random: Random) -> Identity:
    """Of a node that has never been anywhere."""
    return Identity(node_id=node_id, directory_id=random.randbytes(DIRECTORY_ID_BYTES))


def save(disk: Disk, identity: Identity) -> None:
    """A crash leaves the old state or the new one: written aside, synced, then renamed."""
    disk.make_directory("")
    file = disk.open(FILE + ".tmp", create=True)
    file.truncate(0)
    file.pwritev(["\n".join(_lines(identity)).encode()], 0)
    file.sync()
    file.close()
    disk.rename(FILE + ".tmp", FILE)
    disk.sync_directory("")


def _lines(identity: Identity) -> list[str]:
    lines = [f"version={FORMAT_VERSION}", f"node.id={identity.node_id}", f"directory.id={_text(identity.directory_id)}"]
    if identity.cluster_id:
        voters = ",".join(f"{voter.node_id}:{_text(voter.directory_id)}" for voter in identity.voters)
        lines += [f"cluster.id={identity.cluster_id}", f"founding.voters={voters}"]
    return [*lines, ""]


def _read(disk: Disk) -> Identity:
    file = disk.open(FILE)
    text = file.pread(file.size(), 0).decode(errors="replace")
    file.close()
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    try:
        founder = Founder(int(values["node.id"]), _raw(values["directory.id"]))
        cluster_id = values.get("cluster.id", "")
        return Identity(
            node_id=founder.node_id,
            directory_id=founder.directory_id,
            cluster_id=cluster_id,
            voters=_voters(values.get("founding.voters"), founder) if cluster_id else (),
        )
    except (KeyError, ValueError) as error:
        raise StorageError(f"{FILE} in the data directory can't be read: {error}") from error


def _voters(text: str | None, founder: Founder) -> tuple[Founder, ...]:
    """A file that names none was written by a version that knew only clusters of one."""
    if text is None:
        return (founder,)
    pairs = (pair.split(":", 1) for pair in text.split(",") if pair)
    return tuple(Founder(int(node_id), _raw(directory_id)) for node_id, directory_id in pairs)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _raw(text: str) -> bytes:
    raw = base64.urlsafe_b64decode(text + "==")
    if len(raw) != DIRECTORY_ID_BYTES:
        raise ValueError(f"{text!r} is no directory id")
    return raw
