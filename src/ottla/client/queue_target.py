"""Where a queue lives: a directory of this machine, or a topic of a cluster.

./queue                          a directory; whoever opens it first serves it to the others
kafka://host:9092,other:9092     a cluster of any kind that speaks Kafka's protocol
kafka://host:9092/orders         the same, with the topic's name
"""

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ottla.client.settings import Servers, server_list
from ottla.errors import ConfigError

SCHEME = "kafka://"


class QueueMode(Enum):
    FILE = "file"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTargets:
    """The places a queue may use; `switch` goes from one to the other."""

    directory: Path | None = None
    servers: str | None = None
    topic: str = "queue"

    def require(self, mode: QueueMode) -> None:
        if mode is QueueMode.FILE and self.directory is None:
            raise ConfigError("QueueMode.FILE needs a directory")
        if mode is QueueMode.KAFKA and self.servers is None:
            raise ConfigError("QueueMode.KAFKA needs bootstrap_servers, or kafka://host:port")


def parse_target(
    target: str | os.PathLike[str], *, bootstrap_servers: Servers | None, topic: str
) -> tuple[QueueTargets, QueueMode]:
    """The places, and the mode that `target` alone asks for."""
    servers = None if bootstrap_servers is None else server_list(bootstrap_servers)
    text = os.fspath(target)
    if not text.startswith(SCHEME):
        if "://" in text:
            raise ConfigError(f"{text!r} is neither a directory nor {SCHEME}host:port")
        return QueueTargets(directory=Path(text).absolute(), servers=servers, topic=topic), QueueMode.FILE
    addresses, _, named = text.removeprefix(SCHEME).partition("/")
    return QueueTargets(servers=server_list(addresses), topic=named or topic), QueueMode.KAFKA
