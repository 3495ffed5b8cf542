"""Every example runs as a user would run it, and says what it should."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.pytest_plugin import OttlaNode, OttlaTopic

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def where(ottla_topic: OttlaTopic) -> tuple[str, ...]:
    return ("--servers", ottla_topic.bootstrap_servers, "--topic", ottla_topic.name)


def test_every_example_is_tried() -> None:
    tried = set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text()))

    assert {example.name for example in EXAMPLES.glob("*.py")} == tried


def test_simple_producer_and_consumer(where: tuple[str, ...]) -> None:
    sent = run("simple_producer.py", *where)
    read = run("simple_consumer.py", *where, "--count", "10")

    assert sent.splitlines()[-1].endswith("offset 9")
    assert read.splitlines()[-1].endswith("at 9: {'number': 9, 'text': 'hello'}")


def test_high_throughput(where: tuple[str, ...]) -> None:
    output = run("high_throughput.py", *where, "--count", "20000")

    assert "sent 20,000 messages" in output
    assert "read " in output


def test_manual_offsets_processes_again_what_was_not_committed(where: tuple[str, ...]) -> None:
    lines = run("manual_offsets.py", *where).splitlines()

    failed = next(number for number, line in enumerate(lines) if line.startswith("failed"))
    again = lines[failed + 1 :]
    assert again[0] in lines[:failed] or again[0] == "processed payment 5 (offset 5)"
    assert {line.split()[2] for line in lines if line.startswith("processed")} == {str(number) for number in range(10)}


def test_backpressure(where: tuple[str, ...]) -> None:
    output = run("backpressure.py", *where)

    assert "sent 5000 messages with at most 500 waiting" in output
    assert re.search(r"read 5000 messages and paused [1-9]\d* times", output)


def test_embedded_queue_in_a_directory_and_on_a_cluster(tmp_path: Path, ottla_node: OttlaNode) -> None:
    cluster = f"kafka://{ottla_node.bootstrap_servers}/example"

    in_directory = run("embedded_queue.py", "--target", str(tmp_path / "queue"), "--count", "2000")
    on_cluster = run("embedded_queue.py", "--target", cluster, "--count", "2000")

    assert in_directory.startswith("file mode, 4 partitions")
    assert on_cluster.startswith("kafka mode, 4 partitions")
    for output in (in_directory, on_cluster):
        assert "2001 messages read" in output


def test_asyncio_clients(where: tuple[str, ...]) -> None:
    assert run("asyncio_clients.py", *where).splitlines() == ["20 tasks sent 1000 messages", "read 1000 messages"]


def test_exactly_once_with_a_dead_letter(where: tuple[str, ...]) -> None:
    lines = run("exactly_once.py", *where).splitlines()

    summary = lines.index("10 payments, 9 receipts, 1 dead letters")
    assert len(lines[summary + 1 :]) == 9
    assert '3 {"paid":3,"vat":0.6}' in lines
