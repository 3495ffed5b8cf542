"""`ottla produce`."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.command import Ottla


def consumed(ottla: Ottla, topic: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in ottla("consume", topic, "--json").lines]


def test_every_line_of_standard_input_becomes_a_record(ottla: Ottla, topic: str) -> None:
    done = ottla("produce", topic, stdin="one\n\nthree")

    assert done.stdout == ""
    assert done.stderr.startswith("3 records to ")
    assert ottla("consume", topic).stdout == "one\n\nthree\n"


def test_files_are_read_in_order(ottla: Ottla, topic: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3\n")

    ottla("produce", topic, str(tmp_path / "a"), str(tmp_path / "b"))

    assert ottla("consume", topic).lines == ["1", "2", "3"]


def test_a_whole_file_can_be_one_record(ottla: Ottla, topic: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n\xff2\n")

    ottla("produce", topic, str(tmp_path / "a"), "--whole-file")

    assert consumed(ottla, topic)[0]["value_base64"] == "MQr/Mgo="


def test_a_file_that_is_not_there_is_wrong_usage(ottla: Ottla, topic: str) -> None:
    assert "No such file" in ottla("produce", topic, "/nowhere/at/all", code=2).stderr


def test_keys_and_headers(ottla: Ottla, topic: str) -> None:
    ottla("produce", topic, "--key-separator", ":", "-H", "trace=7", "--header", "empty=", stdin="k1:v:1\nk2:v2\n")

    records = consumed(ottla, topic)
    headers = [{"name": "trace", "value": "7"}, {"name": "empty", "value": ""}]
    assert [(record["key"], record["value"]) for record in records] == [("k1", "v:1"), ("k2", "v2")]
    assert all(record["headers"] == headers for record in records)


def test_one_key_for_all(ottla: Ottla, topic: str) -> None:
    ottla("produce", topic, "--key", "same", stdin="a\nb\n")

    assert [record["key"] for record in consumed(ottla, topic)] == ["same", "same"]


def test_json_lines_in_json_summary_out(ottla: Ottla, topic: str) -> None:
    lines = '{"key": "k", "value": {"a": 1}, "timestamp_ms": 1700000000000}\n{"key": "gone", "value": null}\n'

    summary = ottla("produce", topic, "--json", stdin=lines)

    assert summary.json["records"] == 2
    assert summary.json["partitions"] == [{"partition": 0, "first_offset": 0, "last_offset": 1}]
    first, second = consumed(ottla, topic)
    assert (first["value"], first["timestamp_ms"]) == ('{"a":1}', 1_700_000_000_000)
    assert (second["key"], second["value"]) == ("gone", None)


def test_a_partition_can_be_chosen(ottla: Ottla, topic_name: str) -> None:
    ottla("topic", "create", topic_name, "--partitions", "3")

    ottla("produce", topic_name, "--partition", "2", stdin="a\nb\n")

    assert {record["partition"] for record in consumed(ottla, topic_name)} == {2}


def test_a_partition_that_is_not_there_is_refused(ottla: Ottla, topic: str) -> None:
    refused = ottla("produce", topic, "--partition", "9", "--timeout", "3s", stdin="a\n", code=1)

    assert "artition" in refused.stderr


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressions(ottla: Ottla, topic: str, compression: str) -> None:
    ottla("produce", topic, "--compression", compression, stdin="x\n" * 500)

    assert ottla("consume", topic).lines == ["x"] * 500


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(ottla: Ottla, topic: str, acks: str) -> None:
    ottla("produce", topic, "--acks", acks, stdin="x\n")

    assert ottla("consume", topic, "--follow", "--max", "1").lines == ["x"]


def test_the_rate_is_held(ottla: Ottla, topic: str) -> None:
    started = time.monotonic()

    ottla("produce", topic, "--rate", "20", stdin="x\n" * 11)

    assert time.monotonic() - started >= 0.5


def test_a_line_that_can_not_be_read_is_named_and_those_before_it_are_written(ottla: Ottla, topic: str) -> None:
    refused = ottla("produce", topic, "--key-separator", ":", stdin="a:1\nb:2\noops\nc:3\n", code=1)

    assert "ottla: Line 3: there is no separator ':'." in refused.stderr
    assert ottla("consume", topic).lines == ["1", "2"]


def test_a_record_that_is_too_large_is_refused(ottla: Ottla, topic: str) -> None:
    refused = ottla("produce", topic, stdin=b"x" * 2_000_000, code=1)

    assert "too large" in refused.stderr


def test_two_ways_to_give_a_key_are_wrong_usage(ottla: Ottla, topic: str) -> None:
    ottla("produce", topic, "--key", "k", "--key-separator", ":", code=2)


def test_ctrl_c_keeps_what_was_read(ottla: Ottla, topic: str) -> None:
    with ottla.running("produce", topic, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"typed\n")
        process.stdin.flush()
        assert ottla("consume", topic, "--follow", "--max", "1").lines == ["typed"]

        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)

    assert process.returncode == 130
    assert b"Traceback" not in stderr
    assert b"1 record to " in stderr


def test_a_pipe_from_consume_copies_a_topic(ottla: Ottla, topic: str) -> None:
    both = (topic, f"{topic}-copy")
    ottla("produce", topic, "--key-separator", "=", "-H", "h=1", stdin="a=1\nb=2\n")

    copied = ottla("consume", topic, "--json").stdout
    ottla("produce", both[1], "--json", stdin=copied)

    kept = ("key", "value", "headers", "timestamp_ms")
    original, copy = ([[record[name] for name in kept] for record in consumed(ottla, name)] for name in both)
    assert len(original) == 2
    assert original == copy
