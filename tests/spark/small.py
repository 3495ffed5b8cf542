"""A small Spark for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.spark import session
from tests.programs import needs
from tests.spark.settings import SMALL

needs_java = needs("java")


def small_session(directory: Path, **more: str) -> Any:
    """Two cores, little memory, quiet. `more`: settings, with __ for dots."""
    more = {name.replace("__", "."): value for name, value in more.items()}
    settings = {**SMALL, "spark.sql.warehouse.dir": str(directory), **more}
    spark = session("test", master="local[2]", settings=settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark
