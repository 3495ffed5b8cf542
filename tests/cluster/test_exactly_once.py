"""From topic to topic exactly once, in short: by a program on librdkafka alone, and by one on `ottla.stream`.

`make interop` has the long form, with Kafka's own client too.
"""

import sys
from pathlib import Path

import pytest

from tests.cluster.chain import SOURCE, TARGET, Program, assert_every_record_arrives_once

KILLS = 3


def python(module: str) -> Program:
    return Program(command=[sys.executable, "-m", module, "BOOTSTRAP", SOURCE, TARGET, "the-copier"])


@pytest.mark.parametrize("module", ["tests.cluster.copier", "tests.cluster.streamer"])
def test_every_record_arrives_once_while_brokers_and_copiers_are_killed(tmp_path: Path, module: str) -> None:
    assert_every_record_arrives_once(tmp_path, python(module), kills=KILLS, waits=False)
