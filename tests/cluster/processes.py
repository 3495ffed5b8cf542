"""Clusters of real processes: `ottla start` for every node, on free ports, with a directory and a log file each.

with ClusterProcesses(tmp_path, 3) as cluster:      all are started together and serve
    cluster.node(2).kill()                          also stop, pause (SIGSTOP), resume, start, wipe
    cluster.until_brokers(1, 3)                     until the others have noticed
    cluster.bootstrap                               for clients
"""

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from ottla.metadata.internal_topics import METADATA_TOPIC
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.schema import Request, Response
from tests.interop.node_process import NodeProcess, process_wait
from tests.interop.waiting import eventually
from tests.ports import free_port
from tests.robustness.raw_client import RawClient

T = TypeVar("T")
AnyResponse = TypeVar("AnyResponse", bound=Response)

SERVES = "serves on"

HOST = "127.0.0.1"
"""Below those that the system gives out by itself, so that no client takes one between two starts of a node."""
WITHIN_S = 60.0
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ClusterNode(NodeProcess):
    """A node of a cluster on fixed ports, over any number of starts."""

    def __init__(self, directory: Path, node_id: int, seeds: Sequence[str], cluster_port: int, *flags: str) -> None:
        self.node_id = node_id
        self.cluster_port = cluster_port
        self.seeds = seeds
        mine = ["--node-id", str(node_id), "--cluster-port", str(cluster_port), "--rack", f"rack-{node_id}"]
        super().__init__(directory, *mine, *flags, port=free_port())

    @property
    def cluster_address(self) -> str:
        return f"{self.host}:{self.cluster_port}"

    def flags(self) -> list[str]:
        where = [] if self.host == HOST else ["--address", self.host]
        return [*super().flags(), *where, *(["--seeds", ",".join(self.seeds)] if self.seeds else [])]

    def move(self, host: str, prefix: list[str]) -> None:
        """Run elsewhere from the next start on, such as in a network namespace."""
        self.host, self.prefix = host, prefix

    def start(self) -> Self:
        """Returns when the node serves."""
        served = self.times_logged(SERVES)
        self.launch()
        self.until_served(served + 1)
        return self

    def until_served(self, times: int) -> None:
        """Until the node has said so many times, over all its starts, that it serves."""
        self.until(lambda: self.times_logged(SERVES) >= times, "serves")

    def until(self, condition: Callable[[], T], what: str) -> T:
        """Waits while the process lives."""

        def holds_or_is_over() -> T | str:
            return condition() or ("" if self.alive() else "it has ended")

        found = eventually(holds_or_is_over, within_s=WITHIN_S, what=f"node {self.node_id} {what}\n{self.log()}")
        assert found != "it has ended", f"node {self.node_id} has ended:\n{self.log()}"
        return found  # type: ignore[return-value]  # what is left is what the condition gave

    def wait(self, within_s: float = WITHIN_S) -> int:
        """The exit code of a process that ends by itself."""
        assert self._process is not None
        process_wait(self._process, within_s)
        code = self._process.poll()
        assert code is not None, f"node {self.node_id} has not ended within {within_s} s:\n{self.log()}"
        return code

    def pause(self) -> None:
        """SIGSTOP: it stands still, and knows nothing of it."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wipe(self) -> None:
        """The disk of a node that does not run is lost."""
        assert not self.alive()
        shutil.rmtree(self.data_dir)

    def log(self) -> str:
        return super().log() if self.log_file.exists() else ""

    def times_logged(self, text: str) -> int:
        return self.log().count(text)

    def meta(self, name: str) -> str | None:
        """What its `meta.properties` say."""
        path = self.data_dir / "meta.properties"
        found = re.search(rf"^{re.escape(name)}=(.*)$", path.read_text(), re.MULTILINE) if path.exists() else None
        return found[1] if found else None

    @property
    def cluster_id(self) -> str | None:
        return self.meta("cluster.id")

    def ask(self, request: Request, version: int, answer: type[AnyResponse]) -> AnyResponse | None:
        """What the node says to a request; None if it says nothing now."""
        try:
            with RawClient(self.bootstrap) as client:
                return client.call(request, version, answer)
        except (OSError, AssertionError):
            return None

    def brokers(self) -> set[int]:
        """In service, as this node sees it."""
        answer = self.ask(MetadataRequest(topics=()), 9, MetadataResponse)
        return set() if answer is None else {broker.node_id for broker in answer.brokers}

    def quorum(self) -> ResponsePartitionData | None:
        """The voters and the leader of the metadata log, as the controller sees it, whom any node asks."""
        log = RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])
        answer = self.ask(DescribeQuorumRequest(topics=[log]), 1, DescribeQuorumResponse)
        if answer is None or answer.error_code or not answer.topics:
            return None
        return answer.topics[0].partitions[0]

    def cpu_s(self) -> float:
        """What the process has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S


class ClusterProcesses:
    """`founders` nodes that are first started with the same seeds; others may be added."""

    def __init__(self, directory: Path, founders: int = 3, *flags: str) -> None:
        self._directory = directory
        self._flags = flags
        ports = [free_port() for _ in range(founders)]
        self.seeds = [f"{HOST}:{port}" for port in ports]
        self.nodes: dict[int, ClusterNode] = {}
        for node_id, port in enumerate(ports, 1):
            self._add(node_id, self.seeds, port)

    def _add(self, node_id: int, seeds: Sequence[str], cluster_port: int) -> ClusterNode:
        directory = self._directory / f"node-{node_id}"
        node = self.nodes[node_id] = ClusterNode(directory, node_id, seeds, cluster_port, *self._flags)
        return node

    def add(self, node_id: int, seeds: Sequence[str] | None = None) -> ClusterNode:
        """A node that joins by these seeds; by the founders if none are named. It is not started."""
        return self._add(node_id, self.seeds if seeds is None else seeds, free_port())

    def node(self, node_id: int) -> ClusterNode:
        return self.nodes[node_id]

    @property
    def running(self) -> list[ClusterNode]:
        return [node for node in self.nodes.values() if node.alive()]

    @property
    def bootstrap(self) -> str:
        """All nodes, also those that do not run."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self, node_ids: Iterable[int] | None = None) -> Self:
        """All together, or some; returns when they serve and know each other as brokers."""
        nodes = [self.nodes[node_id] for node_id in (self.nodes if node_ids is None else node_ids)]
        before = {node.node_id: node.times_logged(SERVES) for node in nodes}
        for node in nodes:
            node.launch()
        for node in nodes:
            node.until_served(before[node.node_id] + 1)
        self.until_brokers(*(node.node_id for node in self.running))
        return self

    def until_brokers(self, *node_ids: int) -> None:
        """Until every node that runs says that these are in service, and no others."""
        wanted = set(node_ids)
        for node in self.running:
            node.until(partial(_is_seen, node, wanted), f"sees {wanted} in service")

    def controller(self) -> ClusterNode:
        """Once there is one that runs, by its own account."""

        def find() -> ClusterNode | None:
            for node in self.running:
                status = node.quorum()
                if status is not None and status.leader_id == node.node_id:
                    return node
            return None

        found = eventually(find, within_s=WITHIN_S, what=f"a controller\n{self.logs()}")
        assert found is not None
        return found

    def voters(self) -> set[int]:
        status = self.controller().quorum()
        return set() if status is None else {voter.replica_id for voter in status.current_voters}

    def logs(self) -> str:
        return "\n".join(f"--- node {node.node_id}\n{node.log()}" for node in self.nodes.values())

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_seen(node: ClusterNode, wanted: set[int]) -> bool:
    return node.brokers() == wanted
