"""The ingestion pipeline on a real Apache Kafka: unchanged, and every event is counted once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.servers import Kafka

from tests.pipelines.rig import CLOSING, Rig

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    server = Kafka(tmp_path / "kafka", durable=False)
    server.start()
    yield Rig(tmp_path, server.bootstrap)
    server.stop()


def test_two_runs_count_every_event_once(rig: Rig) -> None:
    rig.send()
    assert rig.start().ended() == 0
    rig.send("--heartbeat", CLOSING)
    last = rig.start()

    assert last.ended() == 0
    assert min(last.batches("clean")) > 0
    assert [found for found in rig.check() if found["missing"] or found["unexpected"]] == []
