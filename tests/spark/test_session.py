"""What `ottla.spark.session()` does to the Python processes that Spark starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from ottla import spark_start
from ottla.spark_start.sitecustomize import use_installed

START = spark_start.__path__[0]
LIBRARIES = Path(pyspark.__path__[0]) / "python" / "lib"


def printed(code: str, *paths: str | Path) -> str:
    """What a Python prints that starts as Spark starts one, with these paths first."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_pyspark_comes_from_where_it_is_installed_and_not_from_its_zip() -> None:
    code = "import pyspark, py4j; print(pyspark.__file__, py4j.__file__)"
    zips = sorted(LIBRARIES.glob("*.zip"))

    assert len(zips) == 2
    assert printed(code, *zips).count(".zip") == 2
    assert ".zip" not in printed(code, *zips, START)


def test_a_zip_of_another_pyspark_is_used(tmp_path: Path) -> None:
    elsewhere = ["/opt/spark/python/lib/pyspark.zip", "/opt/spark/python/lib/py4j-0.10-src.zip", str(tmp_path)]
    not_beside = [str(tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"), str(tmp_path)]

    for path in (elsewhere, not_beside):
        before = list(path)
        use_installed(path)
        assert path == before


def test_what_others_have_python_load_at_its_start_is_loaded_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')")

    assert printed("", START, tmp_path) == "theirs\n"
