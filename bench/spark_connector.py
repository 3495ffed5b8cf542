"""Spark's own Kafka connector from Maven Central: what the benchmarks of `format("ottla")` compare with.

There is none for Spark 4.3 that resolves by `--packages`: these versions, put on the class path one by one, work.
"""

from pathlib import Path

from bench.apache_kafka import Artifact, fetched

VERSION = "4.2.0"
_ARTIFACTS: tuple[Artifact, ...] = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)


def jars() -> list[Path]:
    """For `spark.jars`, fetched at first use; KafkaUnavailableError says what is missing."""
    return sorted(fetched(f"spark-connector-{VERSION}", _ARTIFACTS, alone=True).glob("*.jar"))
