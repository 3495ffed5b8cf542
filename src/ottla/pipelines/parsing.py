"""Records of the raw topic become events, or dead letters with a reason.

Everything is an expression of Spark's own: nothing is called back into Python for a record. Numbers are decimals, so
that sums are exact and the same in whichever order they are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ottla.ingest.events import HEARTBEAT, TOO_LATE
from ottla.pipelines.settings import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["accepted", "dead_letters", "judged"]

TEXTS: Final = ("event_id", "client_id", "kind", "action", "page", "name", "order_id", "status")
NUMBERS: Final = ("value", "amount")
BROKEN: Final = "_broken"
SCHEMA: Final = ", ".join(f"{name} string" for name in (*TEXTS, *NUMBERS, "event_time", BROKEN))
"""All as text: a number that is none should cost its event, not turn into nothing."""
NUMBER: Final = "decimal(18,4)"
KINDS: Final = ("client", "metric", "order", HEARTBEAT)
DLQ: Final = "ottla.dlq."


def judged(records: DataFrame, settings: PipelineSettings) -> DataFrame:
    """The columns of the records, `event` (its fields as text), `event_time`, and `reason`: null if all is well."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BROKEN}
    told = records.withColumn("event", F.from_json(F.col("value").cast("string"), SCHEMA, options))
    timed = told.withColumn("event_time", F.col("event.event_time").try_cast("timestamp"))
    return timed.withColumn("reason", _reason(settings))


def _reason(settings: PipelineSettings) -> Column:
    event: Any = F.col("event")
    kind = event.kind
    age = F.unix_millis("timestamp") - F.unix_millis("event_time")
    checks: list[tuple[Column, str]] = [
        (F.col("value").isNull(), "no value"),
        (event.isNull() | event[BROKEN].isNotNull(), "not JSON"),
        (_is_empty(event.event_id), "no event_id"),
        (_is_empty(event.client_id), "no client_id"),
        (_is_empty(event.event_time), "no event_time"),
        (F.col("event_time").isNull(), "event_time is not a time"),
        (~F.coalesce(kind, F.lit("")).isin(*KINDS), "unknown kind"),
        ((kind == "metric") & event["value"].try_cast(NUMBER).isNull(), "value is not a number"),
        ((kind == "order") & _is_empty(event.order_id), "no order_id"),
        ((kind == "order") & ~F.coalesce(event.status, F.lit("")).isin("placed", "paid"), "unknown status"),
        ((kind == "order") & event.amount.try_cast(NUMBER).isNull(), "amount is not a number"),
        (age > settings.lateness_s * 1_000, TOO_LATE),
        (age < -settings.skew_s * 1_000, "from the future"),
    ]
    reason = F.when(*checks[0])
    for condition, text in checks[1:]:
        reason = reason.when(condition, text)
    return reason


def _is_empty(column: Column) -> Column:
    return F.coalesce(column, F.lit("")) == ""


def accepted(rows: DataFrame) -> DataFrame:
    """Events, typed; of `judged` rows."""
    event = F.col("event")
    return rows.where("reason IS NULL").select(
        *(event[name].alias(name) for name in TEXTS),
        *(event[name].try_cast(NUMBER).alias(name) for name in NUMBERS),
        "event_time",
        F.col("timestamp").alias("arrived_at"),
        F.to_date("event_time").alias("date"),
    )


def dead_letters(rows: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Records as they came, with what `ottla dlq` knows of them in headers; of `judged` rows with their headers."""
    about = {
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "offset": F.col("offset"),
        "timestamp": F.unix_millis("timestamp"),
        "group": F.lit(settings.group),
        "deliveries": F.lit(1),
        "error": F.col("reason"),
        "failed_at": F.unix_millis(F.current_timestamp()),
    }
    added = F.array(
        *(
            F.struct(F.lit(DLQ + name).alias("key"), column.cast("string").cast("binary").alias("value"))
            for name, column in about.items()
        )
    )
    none = F.array().cast("array<struct<key: string, value: binary>>")
    headers = F.concat(F.coalesce(F.col("headers"), none), added)
    return rows.where("reason IS NOT NULL").select("key", "value", headers.alias("headers"))
