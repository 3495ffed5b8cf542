"""A Spark session for one machine, and typed columns from JSON messages. Needs `pip install "ottla[spark]"` and Java.

    from ottla.spark import session, with_schema_from

    spark = session()
    rows = spark.readStream.format("ottla").option("kafka.bootstrap.servers", "localhost:9092")…load()
    orders = with_schema_from(rows, "orders", bootstrap_servers="localhost:9092")     # orders.value.amount

Everything else is Spark's own API with `format("ottla")`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ottla import spark_start
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["JavaMissingError", "require_java", "session", "with_schema_from"]

SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.python.unix.domain.socket.enabled": str(sys.platform == "linux").lower(),
}
"""For one machine: nobody else connects, and 200 tasks after each shuffle (Spark's default) would only cost time.

Rows reach Spark from its Python processes over sockets, which cost a tenth less without TCP. (Elsewhere than on Linux
the paths of such sockets may be too long.)
"""


class JavaMissingError(OttlaError):
    """Spark runs on Java, which is not installed."""


def require_java() -> None:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise JavaMissingError("Spark needs Java 17: apt install openjdk-17-jre-headless, or brew install openjdk@17")


def session(name: str = "ottla", *, master: str = "local[*]", settings: dict[str, str] | None = None) -> SparkSession:
    """A session with settings that suit one machine; `settings` go before them."""
    require_java()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    with _python_path():
        return builder.getOrCreate()


@contextmanager
def _python_path() -> Iterator[None]:
    """What is started meanwhile loads `spark_start` first, and what that starts."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (spark_start.__path__[0], before)))
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def with_schema_from(rows: DataFrame, topic: str, *, bootstrap_servers: str, sample: int = 1_000) -> DataFrame:
    """`rows` with `value` parsed from JSON, as its type is in the first `sample` messages of `topic`.

    What is not JSON, or not of that type, is null.
    """
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    spark = rows.sparkSession
    messages = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .load()
        .where("value IS NOT NULL")
        .selectExpr("CAST(value AS STRING) AS value")
        .limit(sample)
    )
    schema = spark.read.json(messages.rdd.map(lambda row: row.value)).schema
    return rows.withColumn("value", F.from_json(F.col("value").cast("string"), schema))
