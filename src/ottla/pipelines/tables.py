"""What is committed in a table, read without Spark.

Spark writes the files of a batch and then names them in the table's log, `_spark_metadata`: a file that is not named is
of a batch that was never finished, or is written again under another name. Readers that only list files would count
those too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

__all__ = ["committed_files", "read_table"]

LOG: Final = "_spark_metadata"
COMPACT: Final = ".compact"


def committed_files(table: Path) -> list[Path]:
    """In the order of their batches. None if the table is not there yet."""
    log = table / LOG
    if not log.is_dir():
        return []
    entries = {int(path.name.removesuffix(COMPACT)): path for path in log.iterdir() if path.name[:1].isdigit()}
    whole = [number for number, path in entries.items() if path.name.endswith(COMPACT)]
    files: dict[Path, None] = {}
    for number in sorted(entries):
        if number >= max(whole, default=0):
            files.update(dict.fromkeys(_added(entries[number])))
    return list(files)


def _added(entry: Path) -> list[Path]:
    """A line with the version of the log, then one per file."""
    described = map(json.loads, entry.read_text().splitlines()[1:])
    return [Path(unquote(urlsplit(file["path"]).path)) for file in described if file["action"] == "add"]


def read_table(table: Path) -> list[dict[str, Any]]:
    """Its rows, without the columns that it is partitioned by."""
    import pyarrow.parquet as parquet

    rows: list[dict[str, Any]] = []
    for file in committed_files(table):
        rows += parquet.ParquetFile(file).read().to_pylist()
    return rows
