"""Settings of a small Spark, for sessions in tests and in processes that tests start."""

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Starts with half the work, and never gets as fast as it could."""
SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.sql.shuffle.partitions": "2",
}
