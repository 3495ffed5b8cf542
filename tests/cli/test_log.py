"""`ottla log`: the files of a data directory."""

import json
import os
from pathlib import Path

import pytest

from ottla.groups.log_format import encode_record
from ottla.groups.records import OffsetCommitted
from ottla.protocol.records import Compression, Record, build_batch
from ottla.runtime.directory_lock import DirectoryLock
from tests.cli.command import Ottla

ottla_offline = Ottla()
SEGMENT = "00000000000000000000.log"


def batch(base_offset: int, *values: bytes, compression: Compression = Compression.NONE) -> bytes:
    records = [Record(key=b"k", value=value, timestamp_ms=1_700_000_000_000, headers=[("h", b"1")]) for value in values]
    return build_batch(records, base_offset=base_offset, compression=compression, leader_epoch=3)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Topic `t` with three records in two batches, topic `u` with one."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / SEGMENT).write_bytes(batch(0, b"a", b"b") + batch(2, b"c", compression=Compression.ZSTD))
    (tmp_path / "u-0").mkdir()
    (tmp_path / "u-0" / SEGMENT).write_bytes(batch(0, b"\xff"))
    return tmp_path


def dumped(*arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in ottla_offline("log", "dump", *arguments).lines]


def test_a_data_directory_is_dumped_batch_by_batch(data_dir: Path) -> None:
    found = dumped(str(data_dir), "--json")

    assert [(each["file"], each["base_offset"], each["last_offset"]) for each in found] == [
        (f"t-0/{SEGMENT}", 0, 1),
        (f"t-0/{SEGMENT}", 2, 2),
        (f"u-0/{SEGMENT}", 0, 0),
    ]
    assert [each["compression"] for each in found] == ["none", "zstd", "none"]
    assert found[1]["position"] == found[0]["size_bytes"]
    assert all(each["problem"] is None for each in found)


def test_people_get_a_line_a_batch(data_dir: Path) -> None:
    [line] = ottla_offline("log", "dump", str(data_dir), "--topic", "u").lines

    assert line.startswith(f"u-0/{SEGMENT} at 0: offsets 0..0, 1 record, ")
    assert "none, epoch 3, 2023-11-14T" in line


@pytest.mark.parametrize("part", [".", "t-0", f"t-0/{SEGMENT}"])
def test_a_remark_says_that_the_journal_may_hold_more(data_dir: Path, part: str) -> None:
    assert ottla_offline("log", "dump", str(data_dir / part)).stderr == ""
    (data_dir / "journal").mkdir()
    assert "in its journal alone" in ottla_offline("log", "dump", str(data_dir / part)).stderr
    (data_dir / ".kafka_cleanshutdown").touch()
    assert ottla_offline("log", "dump", str(data_dir / part)).stderr == ""


def test_records_can_be_seen(data_dir: Path) -> None:
    found = dumped(str(data_dir), "--topic", "t", "--records", "--from", "1")

    assert [(each["offset"], each["key"], each["value"]) for each in found] == [(1, "k", "b"), (2, "k", "c")]
    assert found[0]["headers"] == [{"name": "h", "value": "1"}]
    assert dumped(str(data_dir / "u-0"), "--records")[0]["value_base64"] == "/w=="


def test_a_file_and_a_limit(data_dir: Path) -> None:
    assert len(dumped(str(data_dir / "t-0" / SEGMENT), "--json", "--max", "1")) == 1
    assert len(dumped(str(data_dir), "--records", "--max", "3")) == 3


def test_records_of_the_nodes_own_topics_are_explained(tmp_path: Path) -> None:
    key, value = encode_record(OffsetCommitted("readers", "t", 0, 42, -1, "", 1_700_000_000_000))
    (tmp_path / "__consumer_offsets-7").mkdir()
    (tmp_path / "__consumer_offsets-7" / SEGMENT).write_bytes(
        build_batch([Record(key=key, value=value, timestamp_ms=1)])
    )

    [found] = dumped(str(tmp_path), "--records")

    assert "OffsetCommitted" in str(found["meaning"])
    assert "offset=42" in str(found["meaning"])


def test_a_wrong_checksum_is_shown(data_dir: Path) -> None:
    file = data_dir / "u-0" / SEGMENT
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)

    assert "checksum" in str(dumped(str(file), "--json")[0]["problem"])
    assert "CHECKSUM" in ottla_offline("log", "dump", str(file)).stdout


def test_bytes_that_are_no_batch_end_the_dump_with_an_error(data_dir: Path) -> None:
    with open(data_dir / "u-0" / SEGMENT, "ab") as file:
        file.write(b"torn")

    finished = ottla_offline("log", "dump", str(data_dir / "u-0"), code=1)

    assert len(finished.lines) == 1
    assert "is not whole" in finished.stderr


@pytest.mark.parametrize("arguments", [["/nowhere"], ["--topic", "nothing"]])
def test_nothing_to_dump_is_an_error(data_dir: Path, arguments: list[str]) -> None:
    path = [] if arguments[0].startswith("/") else [str(data_dir)]

    assert ottla_offline("log", "dump", *path, *arguments, code=1).stderr.startswith("ottla: There ")


def test_a_sound_directory_is_verified(data_dir: Path) -> None:
    report = ottla_offline("log", "verify", str(data_dir), "--json").json

    assert report["sound"] is True
    assert [(each["directory"], each["records"], each["end_offset"]) for each in report["partitions"]] == [
        ("t-0", 3, 3),
        ("u-0", 1, 1),
    ]
    lines = ottla_offline("log", "verify", str(data_dir), "--topic", "u").lines
    assert [line.split()[0] for line in lines] == ["PARTITION", "u-0"]


@pytest.mark.parametrize("position", [70, 0, -1], ids=["in the middle", "in the offset", "at the end"])
def test_a_flipped_bit_is_found(data_dir: Path, position: int) -> None:
    file = data_dir / "t-0" / SEGMENT
    content = bytearray(file.read_bytes())
    content[position] ^= 0x40
    file.write_bytes(content)

    report = ottla_offline("log", "verify", str(data_dir), "--json", code=1).json

    assert report["sound"] is False
    assert [len(each["problems"]) > 0 for each in report["partitions"]] == [True, False]
    assert f"t-0/{SEGMENT}" in ottla_offline("log", "verify", str(data_dir), code=1).lines[-1]


def test_a_directory_in_use_is_not_verified(data_dir: Path) -> None:
    with DirectoryLock(str(data_dir)):
        refused = ottla_offline("log", "verify", str(data_dir), code=4)

    assert f"in use by process {os.getpid()}" in refused.stderr


def test_nothing_to_verify_is_an_error(tmp_path: Path) -> None:
    assert "no directory" in ottla_offline("log", "verify", str(tmp_path / "nowhere"), code=1).stderr
    assert "no partitions" in ottla_offline("log", "verify", str(tmp_path), code=1).stderr
    assert list(tmp_path.iterdir()) == []
