"""Replication as transcripts: tests/scenarios/replication.

    replicas 3 [minimum 2]       three nodes, of which node 1 leads
    write a b                    the leader appends a batch; it is on its disk at once
    2 fetches                    and does as it is told; what it appends is on its disk at once
    2 asks                       and does nothing with the answer
    elect 2 | isr 1 2            the controller has decided
    propose 1 2 3 | refused      the leader asks the controller, and is refused
    10 s pass | look             who lags
    delete before 3              on the leader
    logs

Records are written with the epoch of their leader: a1 is `a` of epoch 1.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.records import iter_batches, read_records
from tests.replication.cluster import Replicas
from tests.scenarios import check_scenario, scenario_files

LAG_MAX_MS = 10_000


@pytest.mark.parametrize("path", scenario_files("replication"), ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check_scenario(path, Stage().run, request)


class Stage:
    """Runs commands, and tells what comes of them."""

    def __init__(self) -> None:
        self.replicas = Replicas(1)

    def run(self, command: str) -> str:
        told = self._told(command.split())
        leader = self.replicas.leader
        return f"{told}; committed {leader.high_watermark} of {leader.log.end_offset}"

    def _told(self, words: list[str]) -> str:
        replicas = self.replicas
        match words:
            case ["replicas", count]:
                self.replicas = Replicas(int(count))
            case ["replicas", count, "minimum", minimum]:
                self.replicas = Replicas(int(count), min_insync_replicas=int(minimum))
            case ["write", *values]:
                return f"at {replicas.produce(*(value.encode() for value in values))}"
            case [node, "fetches"]:
                data = replicas.fetch(int(node))
                replicas.take(int(node), data)
                replicas.commit(int(node))
                return self._answer(data)
            case [node, "asks"]:
                return self._answer(replicas.fetch(int(node)))
            case ["elect", node]:
                replicas.elect(int(node))
                return f"node {node} leads in epoch {replicas.image.leader_epoch}"
            case ["isr", *nodes]:
                replicas.set_isr(*map(int, nodes))
            case ["propose", *nodes]:
                replicas.leader.propose_isr(tuple(map(int, nodes)))
            case ["refused"]:
                replicas.leader.propose_isr(None)
            case [seconds, "s", "pass"]:
                replicas.now_ms += int(seconds) * 1_000
            case ["look"]:
                return f"lagging: {replicas.leader.lagging(replicas.now_ms, LAG_MAX_MS)}"
            case ["delete", "before", offset]:
                replicas.leader.log.delete_records_before(int(offset))
            case ["logs"]:
                return " | ".join(f"{node}: {self._log(node)}" for node in replicas.image.replicas)
            case _:
                raise AssertionError(words)
        return "done"

    def _answer(self, data: PartitionData | None) -> str:
        joins = f", node {self.replicas.caught_up[-1]} may join" if self.replicas.caught_up else ""
        self.replicas.caught_up = []
        if data is None:
            return f"nothing new{joins}"
        if data.error_code:
            return f"{ErrorCode(data.error_code).name}, begins at {data.log_start_offset}"
        if data.diverging_epoch.epoch >= 0:
            return f"differs after {data.diverging_epoch.end_offset} of epoch {data.diverging_epoch.epoch}"
        return f"records {_written(data.records) or 'none'}, high watermark {data.high_watermark}{joins}"

    def _log(self, node: int) -> str:
        log = self.replicas.logs[node]
        if log.start_offset == log.end_offset:
            return f"empty at {log.end_offset}"
        data = log.read(log.start_offset, 1 << 20, upto_offset=log.end_offset, min_one_batch=True)
        begins = f"from {log.start_offset} " if log.start_offset else ""
        return begins + _written(data)


def _written(data: object) -> str:
    assert isinstance(data, bytes)
    return " ".join(
        f"{(record.value or b'').decode()}{batch.leader_epoch}"
        for batch in iter_batches(data)
        for record in read_records(batch.data)
    )
