"""The same chain of topics through librdkafka, `ottla.stream` and Kafka's own client, with ten kills of each.

Brokers of a cluster of three and the program that copies are killed with SIGKILL, ten times each, whenever it has got
something done; then every record is in the other topic once, for readers of committed records.
"""

from pathlib import Path

import pytest

from bench import apache_kafka
from tests.cluster.chain import SOURCE, TARGET, Program, assert_every_record_arrives_once
from tests.cluster.test_exactly_once import python
from tests.interop.kafka_tools import MAIN_CLASSES

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1_200)]

KILLS = 10


def java() -> Program:
    """It copies one partition, and aborts some of its transactions by itself."""
    arguments = ["--broker-list", "BOOTSTRAP", "--transactional-id", "the-copier", "--consumer-group", "copiers"]
    arguments += ["--input-topic", SOURCE, "--input-partition", "0", "--output-topic", TARGET]
    arguments += ["--transaction-size", "5", "--enable-random-aborts", "--use-group-metadata"]
    command = apache_kafka.tool_command(MAIN_CLASSES["kafka-transactional-message-copier"], arguments)
    return Program(command=command, partitions=1)


@pytest.mark.parametrize("client", ["librdkafka", "ottla.stream", "java"])
def test_every_record_arrives_once_over_ten_kills_of_brokers_and_ten_of_the_client(tmp_path: Path, client: str) -> None:
    modules = {"librdkafka": "tests.cluster.copier", "ottla.stream": "tests.cluster.streamer"}
    program = python(modules[client]) if client in modules else java()
    assert_every_record_arrives_once(tmp_path, program, kills=KILLS, waits=True)
