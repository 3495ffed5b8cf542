"""The pipeline, declared: which tables and topics there are, and what flows into them.

    topic raw ──┬─▶ table clean ──┬─▶ table tumbling ──┐
                │                 ├─▶ table sliding  ──┤
                │                 ├─▶ table sessions ──┼─▶ topics clean, tumbling, sliding, sessions, orders
                │                 ├─▶ table orders   ──┤
                │                 └────────────────────┘
                └─▶ topic raw.dlq

Tables are Parquet, partitioned by date. Between them Spark itself sees what depends on what and runs it in order, which
is why results go to tables first and from there to topics: all of one run are of the same state of `raw`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark import pipelines as dp
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ottla.ingest.events import HEARTBEAT
from ottla.pipelines import queries
from ottla.pipelines.parsing import accepted, dead_letters, judged
from ottla.pipelines.settings import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["define"]

WINDOW_COLUMNS: Final = (
    "client_id", "window_start", "window_end", "events", "metrics", "mean_value", "orders", "amount",
)  # fmt: skip
TOPIC_COLUMNS: Final = {
    "clean": queries.CLEAN_COLUMNS,
    "tumbling": WINDOW_COLUMNS,
    "sliding": WINDOW_COLUMNS,
    "sessions": WINDOW_COLUMNS,
    "orders": ("order_id", "client_id", "amount", "placed_at", "paid_at", "is_paid"),
}


def define(spark: SparkSession) -> None:
    """Called from the definitions file of a project, in which Spark has put `spark`."""
    settings = PipelineSettings.from_conf(spark.conf.get)
    servers = {"kafka.bootstrap.servers": settings.bootstrap}

    def records(group: str) -> DataFrame:
        options = {"subscribe": settings.raw, "startingOffsets": "earliest", "includeHeaders": "true"}
        return spark.readStream.format("ottla").options(**servers, **options, **{"group.id": group}).load()

    by_date: dict[str, Any] = {"partition_cols": ["date"], "format": "parquet"}

    @dp.table(**by_date)  # type: ignore[untyped-decorator]  # pyspark has no types where it is not installed
    def clean() -> DataFrame:
        """Each event once. The second of two with the same id is behind the watermark, or its first is still known."""
        events = accepted(judged(records(settings.group), settings))
        delay = f"{settings.watermark_s} seconds"
        return events.withWatermark("event_time", delay).dropDuplicatesWithinWatermark(["event_id"])

    windows = {"tumbling": queries.tumbling, "sliding": queries.sliding, "sessions": queries.sessions}
    for name, query in {**windows, "orders": queries.orders}.items():
        dp.table(name=name, **by_date)(partial(spark.sql, query(settings)))

    dp.create_sink("dead_letter_topic", "ottla", {**servers, "topic": settings.dead_letters})

    @dp.append_flow(target="dead_letter_topic")  # type: ignore[untyped-decorator]
    def set_aside() -> DataFrame:
        return dead_letters(judged(records(f"{settings.group}-dlq"), settings), settings)

    dp.create_sink("result_topics", "ottla", servers)

    @dp.append_flow(target="result_topics")  # type: ignore[untyped-decorator]
    def tell_results() -> DataFrame:
        first, *rest = (_messages(spark, settings, name) for name in TOPIC_COLUMNS)
        for rows in rest:
            first = first.union(rows)
        return first


def _messages(spark: SparkSession, settings: PipelineSettings, name: str) -> DataFrame:
    rows = spark.readStream.table(name)
    if name == "clean":
        rows = rows.where(f"kind <> '{HEARTBEAT}'")
    return rows.select(
        F.lit(settings.topic(name)).alias("topic"),
        F.col("client_id").alias("key"),
        F.to_json(F.struct(*TOPIC_COLUMNS[name])).alias("value"),
    )
