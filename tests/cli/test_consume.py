"""`ottla consume`."""

import json
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.command import SCRIPT, Ottla, environment


@pytest.fixture(scope="module")
def numbers(ottla: Ottla) -> Iterator[str]:
    """A topic of two partitions: 0 to 9, a second apart from each other, even numbers in partition 0."""
    name = "cli-consume-numbers"
    ottla("topic", "delete", name, "--if-exists")
    ottla("topic", "create", name, "--partitions", "2")
    lines = [
        {"key": f"k{n}", "value": str(n), "partition": n % 2, "timestamp_ms": 1_700_000_000_000 + 1_000 * n}
        for n in range(10)
    ]
    ottla("produce", name, "--json", stdin="\n".join(map(json.dumps, lines)))
    yield name
    ottla("topic", "delete", name)


def test_without_follow_it_ends_at_the_end(ottla: Ottla, numbers: str) -> None:
    assert sorted(ottla("consume", numbers).lines) == [str(n) for n in range(10)]


def test_an_empty_topic_ends_at_once(ottla: Ottla, topic: str) -> None:
    assert ottla("consume", topic).stdout == ""


def test_a_topic_that_is_not_there_is_refused(ottla: Ottla, topic_name: str) -> None:
    assert "`ottla topic list`" in ottla("consume", topic_name, code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from", "beginning"], "0 2 4 6 8"),
        (["--from", "3"], "6 8"),
        (["--from", "-2"], "6 8"),
        (["--from", "-999"], "0 2 4 6 8"),
        (["--from", "999"], ""),
        (["--from", "2023-11-14T22:13:25Z"], "6 8"),
        (["--from", "@1700000004000"], "4 6 8"),
        (["--from", "now"], ""),
        (["--until", "2"], "0 2"),
        (["--until", "end"], "0 2 4 6 8"),
        (["--until", "@1700000004000"], "0 2"),
        (["--from", "1", "--until", "3"], "2 4"),
        (["--max", "2"], "0 2"),
        (["--follow", "--max", "3"], "0 2 4"),
        (["--follow", "--until", "3"], "0 2 4"),
        (["--follow", "--until", "@1700000006000"], "0 2 4"),
        (["--follow", "--timeout", "1s"], "0 2 4 6 8"),
        (["--from", "end", "--timeout", "1s"], ""),
    ],
)
def test_where_reading_begins_and_ends(ottla: Ottla, numbers: str, arguments: list[str], expected: str) -> None:
    assert ottla("consume", numbers, "--partition", "0", *arguments).lines == expected.split()


def test_several_topics_and_partitions(ottla: Ottla, numbers: str, topic: str) -> None:
    ottla("produce", topic, stdin="x\n")

    assert sorted(ottla("consume", numbers, topic, "--from", "-1", "--partition", "0").lines) == ["8", "x"]
    assert sorted(ottla("consume", numbers, "--partition", "0-1", "--from", "-1").lines) == ["8", "9"]


def test_a_partition_that_is_not_there_is_refused(ottla: Ottla, numbers: str) -> None:
    assert "no partition 5" in ottla("consume", numbers, "--partition", "5", code=1).stderr


def test_formats(ottla: Ottla, numbers: str) -> None:
    def one(*arguments: str) -> str:
        return ottla("consume", numbers, "--partition", "1", "--from", "4", *arguments).stdout

    assert one("--keys") == "k9\t9\n"
    assert one("--offsets", "--headers") == f"{numbers}-1:4\t\t9\n"
    assert one("--timestamps").startswith("2023-11-14T")
    assert one("--format", r"{offset}={value};\n") == "4=9;\n"
    assert "39" in one("--format", "hex").splitlines()[1]
    expected = {"topic": numbers, "partition": 1, "offset": 4, "timestamp_ms": 1_700_000_009_000}
    assert json.loads(one("--json")) == {**expected, "key": "k9", "value": "9", "headers": []}
    assert one("--format", "json") == one("--json")


def test_a_format_that_is_none_is_wrong_usage(ottla: Ottla, numbers: str) -> None:
    assert "is none of text, json, hex" in ottla("consume", numbers, "--format", "xml", code=2).stderr
    assert "{colour} is not a field" in ottla("consume", numbers, "--format", "{colour}", code=2).stderr


def test_follow_prints_what_arrives_until_ctrl_c(ottla: Ottla, topic: str) -> None:
    with ottla.running("consume", topic, "--follow") as process:
        assert process.stdout is not None
        ottla("produce", topic, stdin="first\n")
        assert process.stdout.readline() == b"first\n"
        ottla("produce", topic, stdin="second\n")
        assert process.stdout.readline() == b"second\n"

        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)

    assert process.returncode == 130
    assert stderr.strip() == b""


def test_a_reader_that_goes_away_is_no_error(ottla: Ottla, topic: str) -> None:
    ottla("produce", topic, stdin="x\n" * 50_000)

    done = subprocess.run(
        ["bash", "-c", f"{SCRIPT} consume {topic} --keys | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        env=environment(ottla.bootstrap),
        check=True,
        timeout=60,
    )

    assert done.stdout == b"null\tx\n141\n"
    assert done.stderr == b""


def test_a_group_goes_on_where_it_was(ottla: Ottla, topic: str, topic_name: str) -> None:
    ottla("produce", topic, stdin="a\nb\nc\n")

    assert ottla("consume", topic, "--group", topic_name, "--max", "2").lines == ["a", "b"]
    assert ottla("consume", topic, "--group", topic_name).lines == ["c"]
    assert ottla("consume", topic, "--group", topic_name).lines == []
    ottla("produce", topic, stdin="d\n")
    assert ottla("consume", topic, "--group", topic_name, "--follow", "--max", "1").lines == ["d"]


@pytest.mark.parametrize(
    "arguments", [["--from", "3"], ["--partition", "0"], ["--until", "5"], ["--from", "-5m"]], ids=" ".join
)
def test_a_group_decides_itself_where_it_reads(ottla: Ottla, numbers: str, arguments: list[str]) -> None:
    ottla("consume", numbers, "--group", "g", *arguments, code=2)
