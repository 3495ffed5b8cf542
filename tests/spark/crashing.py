"""`format("ottla-crashing")`: the sink, and a fault that strikes once, at a known step of the first batch.

before-commit     the driver's JVM is killed when all tasks have written, and the process that would commit with it
orphan            the same, but that process goes on and commits, while the query is started again
after-decision    the driver is killed when the batch is decided and no transaction of it ended
after-commit      the driver is killed when the batch is committed, before Spark knows
task              a task fails after it has written
executor          the JVM of an executor is killed after a task of it has written
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from ottla.spark import session
from pyspark_ottla import DefaultSource
from pyspark_ottla.sink import SinkOptions, StreamWriter, Written
from pyspark_ottla.two_phase import TwoPhase
from tests.spark.settings import QUICK_JVM, SMALL

DRIVER_FAULTS = ("before-commit", "orphan", "after-decision", "after-commit")


class CrashingSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "ottla-crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> CrashingWriter:  # noqa: N802 - Spark's name
        options = SinkOptions.parse(self.options, schema)
        return CrashingWriter(options, self.options["fault"], self.options["flags"]).plan()


class CrashingWriter(StreamWriter):
    def __init__(self, options: SinkOptions, fault: str, flags: str) -> None:
        super().__init__(options)
        self._fault, self._flags = fault, flags

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return super().write(self._disturbed(iterator))

    def _disturbed(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What comes after the last row comes when the rows have been sent."""
        count = 0
        for batch in rows:
            yield batch
            count += batch.num_rows
        if count == 0 or TaskContext.get().partitionId() != 0:
            return
        if self._fault == "task" and self._first_time("struck"):
            raise RuntimeError("on purpose")
        if self._fault == "executor" and self._first_time("struck"):
            kill_jvm()

    def commit(self, messages: Sequence[Written | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        if self._fault == "before-commit" and self._first_time("struck"):
            kill_jvm()
            os._exit(1)
        if self._fault == "orphan" and self._first_time("struck"):
            kill_jvm()
        if self._fault == "after-decision" and self._first_time("struck"):
            TwoPhase._commit_one = _die  # type: ignore[method-assign, assignment]  # of this process, which ends there
        super().commit(messages, batchId)
        if self._fault == "after-commit" and self._first_time("struck"):
            kill_jvm()
            os._exit(1)

    def _first_time(self, what: str) -> bool:
        try:
            (Path(self._flags) / what).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _die(*_: object) -> None:
    kill_jvm()
    os._exit(1)


def kill_jvm() -> None:
    """The one that this process works for: the driver's, or an executor's."""
    pid = os.getpid()
    while not (name := Path(f"/proc/{pid}/comm").read_text().strip()).startswith("java"):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert pid > 1, f"no JVM above {name}"
    os.kill(pid, signal.SIGKILL)


def main(bootstrap: str, source: str, target: str, directory: str, fault: str) -> None:
    """Copy one topic to the other, in batches of 100."""
    settings = {
        **SMALL,
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": QUICK_JVM,
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "1s",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
    master = "local-cluster[2,1,600]" if fault == "executor" else "local[2,4]"
    spark: Any = session("crashing", master=master, settings=settings)
    spark.dataSource.register(CrashingSource)
    rows = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("minPartitions", 2)
        .option("maxOffsetsPerTrigger", 100)
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("ottla-crashing")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", f"{directory}/checkpoint")
        .option("fault", fault)
        .option("flags", directory)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
