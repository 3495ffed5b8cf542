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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ottla import spark_start
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LOCAL_IP", "LOOPBACK", "JavaMissingError", "local_address", "require_java", "session", "with_schema_from"]

LOOPBACK: Final = "127.0.0.1"
LOCAL_IP: Final = "SPARK_LOCAL_IP"

SETTINGS: Final = {
    "spark.driver.host": LOOPBACK,
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
        raise JavaMissingError("Spark needs Java 17 or 21: apt install default-jre-headless; brew install openjdk@21")


def session(name: str = "ottla", *, master: str = "local[*]", settings: dict[str, str] | None = None) -> SparkSession:
    """A session with settings that suit one machine; `settings` go before them."""
    require_java()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    together = {**SETTINGS, **(settings or {})}
    for key, value in together.items():
        builder = builder.config(key, value)
    with _environment(_python_path() | local_address(together)):
        return builder.getOrCreate()


def _python_path() -> dict[str, str]:
    """What is started with it loads `spark_start` first, and what that starts."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (spark_start.__path__[0], os.environ.get("PYTHONPATH"))))}


def local_address(settings: Mapping[str, str]) -> dict[str, str]:
    """The variable with which a Spark that is only for this machine listens on nothing else, its pages neither.

    It does not look up the machine's own name then, which many a laptop can't tell.
    """
    is_local = settings["spark.driver.host"] == LOOPBACK and LOCAL_IP not in os.environ
    return {LOCAL_IP: LOOPBACK} if is_local else {}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """For what is started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
