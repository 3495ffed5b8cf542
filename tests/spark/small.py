"""A small Spark for tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ottla.spark import session
from tests.spark.settings import SMALL

needs_java = pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java, which is not here"
)


def small_session(directory: Path, **more: str) -> Any:
    """Two cores, little memory, quiet. `more`: settings, with __ for dots."""
    more = {name.replace("__", "."): value for name, value in more.items()}
    settings = {**SMALL, "spark.sql.warehouse.dir": str(directory), **more}
    spark = session("test", master="local[2]", settings=settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark
