"""A query in a process of its own, to be killed: copies one topic to another, in small batches, until all is copied."""

from __future__ import annotations

import sys

from ottla.spark import session
from tests.spark.settings import SMALL


def main(bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    spark = session("copy", master="local[2]", settings=SMALL)
    rows = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("minPartitions", 2)
        .option("maxOffsetsPerTrigger", 100)
        .load()
    )
    (
        rows.select("key", "value")
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
