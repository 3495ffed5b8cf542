"""A disk that is full for a while, under an idempotent producer with several requests in flight."""

import time
from pathlib import Path

from ottla.protocol.records import iter_batches
from tests.chaos.shim import Faults, build
from tests.interop.confluent import Deliveries, new_producer
from tests.interop.node_process import NodeProcess
from tests.programs import needs
from tests.robustness.raw_client import create_topic

TOPIC = "filled"
FULL_S = 1.0

pytestmark = needs("cc")


def test_a_producer_goes_on_in_its_epoch_when_the_disk_has_room_again(tmp_path: Path) -> None:
    """In a new epoch it would send again what it has no answer for, and that may be stored already."""
    faults = Faults(tmp_path / "faults")
    node = NodeProcess(tmp_path, "--no-http")
    node.environment = faults.environment(build(tmp_path))
    deliveries, number = Deliveries(), 0
    with node:
        create_topic(node.bootstrap, TOPIC)
        producer = new_producer(node.bootstrap, enable_idempotence=True, linger_ms=0, message_timeout_ms=0)

        def write(seconds: float) -> None:
            nonlocal number
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                producer.produce(TOPIC, b"%d" % number, on_delivery=deliveries)
                number += 1
                producer.poll(0.002)

        write(FULL_S)
        faults.set(disk_is_full=True)
        write(FULL_S)
        faults.heal()
        write(FULL_S)
        assert producer.flush(60) == 0, node.log()
        assert node.stop() == 0
    assert "No space left on device" in node.log()
    stored = (node.data_dir / f"{TOPIC}-0" / "00000000000000000000.log").read_bytes()
    batches = list(iter_batches(stored))
    assert {batch.producer_epoch for batch in batches} == {0}
    assert sum(batch.record_count for batch in batches) == number == len(deliveries.delivered)
