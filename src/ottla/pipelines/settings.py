"""The settings of the ingestion pipeline. They go through Spark as `spark.ottla.pipeline.<name>`, so that every way of
running a declarative pipeline can give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, Self

__all__ = ["PREFIX", "RESULTS", "PipelineSettings"]

PREFIX: Final = "spark.ottla.pipeline."
RESULTS: Final = ("clean", "tumbling", "sliding", "sessions", "orders")
"""Each is a table and a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    bootstrap: str = "127.0.0.1:9092"
    topic_prefix: str = ""
    """Before the name of every topic."""
    lateness_s: int = 600
    """An event that is older than this when it arrives is set aside as too late."""
    skew_s: int = 60
    """How much the clocks of senders and brokers may differ: what is further in the future is set aside."""
    window_s: int = 60
    slide_s: int = 20
    session_gap_s: int = 120
    """A client that is silent for longer begins another session."""
    payment_s: int = 600
    """An order that is not paid after so long counts as unpaid."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{field.name} must be at least 1")
        if self.window_s % self.slide_s:
            raise ValueError("window_s must be a multiple of slide_s: otherwise events would be in unequal windows")

    @property
    def watermark_s(self) -> int:
        """How far behind the newest event time windows are kept open.

        An event that is accepted is at most `lateness_s` older than its arrival. What was read before it arrived, by
        clocks that differ by `skew_s` at most, not later than that after it, and says a time at most `skew_s` after its
        arrival. So no accepted event can be behind this watermark, whatever the batches are: Spark, which drops such
        events without a word, never has any to drop.
        """
        return self.lateness_s + 2 * self.skew_s

    @property
    def closing_s(self) -> int:
        """So long after the last event, every window is closed and every order decided."""
        return self.watermark_s + max(self.window_s, self.session_gap_s, self.payment_s) + 1

    @property
    def raw(self) -> str:
        return f"{self.topic_prefix}raw"

    @property
    def dead_letters(self) -> str:
        return f"{self.topic_prefix}raw.dlq"

    def topic(self, result: str) -> str:
        return self.topic_prefix + result

    @property
    def topics(self) -> list[str]:
        return [self.raw, self.dead_letters, *map(self.topic, RESULTS)]

    @property
    def group(self) -> str:
        """The group under which the lag of the pipeline is told."""
        return f"{self.topic_prefix}ingestion"

    def to_conf(self) -> dict[str, str]:
        return {PREFIX + field.name: str(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_conf(cls, get: Callable[[str, str], str | None]) -> Self:
        """`get` is `spark.conf.get`."""
        defaults = cls()
        given = {
            field.name: type(getattr(defaults, field.name))(
                get(PREFIX + field.name, str(getattr(defaults, field.name)))
            )
            for field in fields(cls)
        }
        return cls(**given)
