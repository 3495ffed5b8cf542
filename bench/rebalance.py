"""How long a consumer group takes to share out its partitions again when a member joins, leaves or dies.

The members are librdkafka's with the eager protocol, the same for all brokers. Most of the time is theirs: they learn
of a rebalance with their next heartbeat (every half second here), and a member that died is missed when its session
ends (six seconds here, the least that Kafka allows). What the broker adds is the rest, and its CPU time.
"""

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Self

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from bench.loads import Measure, Workload
from bench.members import SESSION_TIMEOUT_MS
from bench.native import DriverError, Measured
from bench.setting import Setting
from bench.topics import new_name, new_topic

SIZES = (2, 10, 100)
PARTITIONS_PER_MEMBER = 2
WITHIN_S = 120.0
LOOK_S = 0.02


class Members:
    """A process with so many members, and what it told of their assignments."""

    def __init__(self, servers: str, topic: str, group: str, count: int) -> None:
        command = [sys.executable, "-m", "bench.members", servers, topic, group, str(count)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._told: queue.Queue[str] = queue.Queue()
        self.assigned: dict[int, list[int]] = {member: [] for member in range(count)}
        self.changed_at = 0.0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.put(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def tell(self, command: str) -> float:
        """Returns the time at which it was told."""
        assert self._process.stdin is not None
        now = time.monotonic()
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return now

    def kill(self) -> float:
        now = time.monotonic()
        self._process.kill()
        self._process.wait()
        self.assigned = {member: [] for member in self.assigned}
        return now

    def look(self) -> None:
        """Take in what was told since the last look."""
        while not self._told.empty():
            told = json.loads(self._told.get())
            self.assigned[told["member"]] = told["partitions"]
            self.changed_at = max(self.changed_at, told["at"])


def is_shared_out(assigned: Sequence[Mapping[int, Sequence[int]]], partitions: int) -> bool:
    """Every member of these processes has partitions, and every partition is with exactly one."""
    shares = [share for of_process in assigned for share in of_process.values()]
    return all(shares) and sorted(one for share in shares for one in share) == list(range(partitions))


def _wait(members: list[Members], partitions: int) -> float:
    """Until everything is shared out among these: the time of the last change."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        for some in members:
            some.look()
        if is_shared_out([some.assigned for some in members], partitions):
            return max(some.changed_at for some in members)
        time.sleep(0.005)
    raise DriverError(f"the partitions were not shared out within {WITHIN_S:.0f} s")


def _rebalance(count: int) -> Measure:
    def measure(at: Setting) -> Measured:
        partitions = PARTITIONS_PER_MEMBER * (count + 1)
        with new_topic(at.server, "rebalance", partitions) as (topic, _):
            group = new_name("rebalance")
            with (
                Members(at.server.bootstrap, topic, group, count) as crowd,
                Members(at.server.bootstrap, topic, group, 1) as one_more,
            ):
                broker = Broker(at.server.bootstrap, group, partitions)
                return _measure(at, broker, crowd, one_more)

    return measure


class Broker:
    """What the group is to the broker."""

    def __init__(self, servers: str, group: str, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._group = group
        self.partitions = partitions

    def settle(self, *members: Members) -> None:
        """Until everything is shared out among these, and the broker waits for none of them.

        A second rebalance may follow the first before all members have seen that one.
        """
        count = sum(len(some.assigned) for some in members)
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            changed_at = _wait(list(members), self.partitions)
            if self._is_stable(count) and _wait(list(members), self.partitions) == changed_at:
                return
            time.sleep(LOOK_S)
        raise DriverError(f"the group did not settle within {WITHIN_S:.0f} s")

    def _is_stable(self, count: int) -> bool:
        try:
            found = self._admin.describe_consumer_groups([self._group])[self._group].result()
        except KafkaException:
            return False
        return bool(found.state == ConsumerGroupState.STABLE and len(found.members) == count)


def _measure(at: Setting, broker: Broker, crowd: Members, one_more: Members) -> Measured:
    crowd.tell("join")
    broker.settle(crowd)
    cpu_before_s = at.server.cpu_s()
    began = one_more.tell("join")
    join_s = _wait([crowd, one_more], broker.partitions) - began
    cpu_ms = (at.server.cpu_s() - cpu_before_s) * 1000
    broker.settle(crowd, one_more)
    began = one_more.tell("leave")
    leave_s = _wait([crowd], broker.partitions) - began
    broker.settle(crowd)
    one_more.assigned = {0: []}
    one_more.tell("join")
    broker.settle(crowd, one_more)
    began = one_more.kill()
    crash_s = _wait([crowd], broker.partitions) - began
    return {
        "join_s": join_s,
        "leave_s": leave_s,
        "crash_s": crash_s,
        "crash_beyond_session_s": crash_s - SESSION_TIMEOUT_MS / 1000,
        "join_cpu_ms": cpu_ms,
    }


def _workload(count: int) -> Workload:
    return Workload(
        name=f"rebalance_{count}",
        title=f"a group of {count}: one more joins; leaves; dies",
        measure=_rebalance(count),
        extra_s=12 + count / 10,
    )


WORKLOADS = tuple(map(_workload, SIZES))
NAMES = tuple(workload.name for workload in WORKLOADS)
