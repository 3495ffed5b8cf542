"""Which files of a table count."""

from __future__ import annotations

import json
from pathlib import Path

from ottla.pipelines.tables import committed_files


def log(table: Path, name: str, *files: str, action: str = "add") -> None:
    directory = table / "_spark_metadata"
    directory.mkdir(parents=True, exist_ok=True)
    lines = ["v1", *(json.dumps({"path": f"file://{table}/{file}", "action": action}) for file in files)]
    (directory / name).write_text("\n".join(lines))


def names(table: Path) -> list[str]:
    return [str(file.relative_to(table)) for file in committed_files(table)]


def test_a_table_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert committed_files(tmp_path / "none") == []


def test_files_count_when_the_log_names_them(tmp_path: Path) -> None:
    log(tmp_path, "0", "date=2026-01-01/a.parquet")
    log(tmp_path, "1")
    log(tmp_path, "2", "date=2026-01-02/b%20c.parquet")
    (tmp_path / "_spark_metadata" / ".3.crc").write_text("")
    (tmp_path / "of-a-batch-that-was-not-finished.parquet").touch()

    assert names(tmp_path) == ["date=2026-01-01/a.parquet", "date=2026-01-02/b c.parquet"]


def test_a_compacted_entry_stands_for_all_before_it(tmp_path: Path) -> None:
    log(tmp_path, "8", "old.parquet")
    log(tmp_path, "9.compact", "a.parquet", "b.parquet")
    log(tmp_path, "10", "c.parquet")

    assert names(tmp_path) == ["a.parquet", "b.parquet", "c.parquet"]
