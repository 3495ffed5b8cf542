"""A Spark application that is told what to do: one JSON object per line in, one per line out.

Ours and Spark's own connector run in processes of their own, in turns; both stay up, since a JVM gets faster for a
minute. `python -m bench.spark_driver OPTIONS`, where the options are `Side` as JSON.
"""

import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from ottla.spark import session

CORES = 2
FEED_EVERY_S = 0.02
"""Each time a row for every partition: a batch of 100 ms has a few rows of each."""
BATCHES_WITHIN_S = 300.0
STEPS = ("triggerExecution", "latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets")

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Which connector, and where its broker is."""

    format: str
    bootstrap: str
    jars: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """Of Spark, beside those below."""
    partitions: int = 6


class Works:
    """What can be asked for, by name."""

    def __init__(self, spark: SparkSession, side: Side) -> None:
        self._spark, self._side = spark, side
        self._cached: dict[tuple[int, int], DataFrame] = {}

    def read(self, topic: str, **options: str) -> Figures:
        """A job over a whole topic that needs every column of every row."""
        rows = self._spark.read.format(self._side.format).options(**self._source(topic), **options).load()
        began = time.monotonic()
        hashed = ", ".join(rows.columns)
        found = rows.selectExpr(f"xxhash64({hashed}) AS hash").selectExpr("count(*) AS rows", "bit_xor(hash)").first()
        return {"seconds": time.monotonic() - began, "rows": found.rows if found else 0}

    def parquet(self, topic: str, **options: str) -> Figures:
        """A stream over all that is there now, into files."""
        rows = self._stream(topic, "earliest", **options)
        with _scratch() as directory:
            began = time.monotonic()
            writing = rows.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
            query = writing.option("path", f"{directory}/out").trigger(availableNow=True).start()
            query.awaitTermination()
            seconds = time.monotonic() - began
            return {"seconds": seconds, "rows": sum(done["numInputRows"] for done in query.recentProgress)}

    def write(self, topic: str, count: int, row_bytes: int) -> Figures:
        """A job that writes rows from memory to a topic."""
        rows = self._rows(count, row_bytes)
        began = time.monotonic()
        rows.write.format(self._side.format).options(**self._sink(topic)).mode("append").save()
        return {"seconds": time.monotonic() - began, "rows": count}

    def micro(self, topic: str, batches: int, target: str | None = None) -> Figures:
        """Small batches, one right after the other, into nothing or into another topic: medians in milliseconds."""
        rows = self._stream(topic, "latest")
        with _scratch() as directory, _feeding(self._side, topic):
            if target is None:
                writing = rows.writeStream.format("noop")
            else:
                writing = rows.select("key", "value").writeStream.format(self._side.format)
                writing = writing.options(**self._sink(target))
            query = writing.option("checkpointLocation", f"{directory}/checkpoint").start()
            try:
                progress = _progress(query, batches)
            finally:
                query.stop()
        found = {step: statistics.median(done["durationMs"].get(step, 0) for done in progress) for step in STEPS}
        return {**found, "rows": statistics.median(done["numInputRows"] for done in progress)}

    def first(self, topic: str) -> Figures:
        """The first batch of a stream, however many rows it has."""
        with _scratch() as directory:
            writing = self._stream(topic, "earliest", maxOffsetsPerTrigger="6000").writeStream.format("noop")
            query = writing.option("checkpointLocation", f"{directory}/checkpoint").start()
            try:
                rows = _progress(query, 1, skipped=0)[0]["numInputRows"]
            finally:
                query.stop()
        return {"rows": rows}

    def _stream(self, topic: str, start: str, **options: str) -> DataFrame:
        reading = self._spark.readStream.format(self._side.format).options(**self._source(topic), **options)
        return reading.option("startingOffsets", start).load()

    def _source(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._side.bootstrap, "subscribe": topic}

    def _sink(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._side.bootstrap, "topic": topic}

    def _rows(self, count: int, row_bytes: int) -> DataFrame:
        found = self._cached.get((count, row_bytes))
        if found is None:
            value = f"rpad(concat('{{\"event\":\"', sha1(key), '\"'), {row_bytes - 8}, 'x')"
            found = self._spark.range(0, count, 1, self._side.partitions).selectExpr("lpad(id, 8, '0') AS key")
            found = found.selectExpr("CAST(key AS BINARY) AS key", f"CAST({value} AS BINARY) AS value").cache()
            found.count()
            self._cached[count, row_bytes] = found
        return found


def _progress(query: Any, batches: int, *, skipped: int = 10) -> list[Any]:
    """What Spark tells of the last batches that had rows, after some that are not counted."""
    last, deadline = -1, time.monotonic() + BATCHES_WITHIN_S
    while last + 1 < batches + skipped:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        if time.monotonic() > deadline:
            raise TimeoutError(f"{last + 1} batches in {BATCHES_WITHIN_S:g} s")
        time.sleep(0.02 if batches == 1 else 0.3)
        last = (query.lastProgress or {"batchId": -1})["batchId"]
    return [done for done in query.recentProgress if done["numInputRows"] and done["batchId"] >= skipped][:batches]


@contextmanager
def _scratch() -> Any:
    directory = tempfile.mkdtemp(prefix="ottla-bench-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _feeding(side: Side, topic: str) -> Any:
    """While it is open, rows come to every partition."""
    producer = Producer({"bootstrap.servers": side.bootstrap, "linger.ms": 0, "acks": "all"})
    done = threading.Event()

    def feed() -> None:
        while not done.wait(FEED_EVERY_S):
            for partition in range(side.partitions):
                with suppress(BufferError):
                    producer.produce(topic, b"x" * 92, b"12345678", partition)
            producer.poll(0)

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        producer.flush(10)


def settings_of(side: Side) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.network.timeout": "1h",
        "spark.jars": ",".join(side.jars),
        **side.settings,
    }


def main() -> None:
    side = Side(**json.loads(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints must not get between the answers
    spark = session("bench", master=f"local[{CORES}]", settings=settings_of(side))
    spark.sparkContext.setLogLevel("ERROR")
    works = Works(spark, side)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(works, json.loads(line))), file=answers, flush=True)
    spark.stop()


def _answer(works: Works, asked: dict[str, Any]) -> Figures:
    work: Callable[..., Figures] = getattr(works, asked.pop("work"))
    try:
        return work(**asked)
    except Exception as error:  # the run goes on with the next one
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
