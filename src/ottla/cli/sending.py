"""Sends a stream of records and keeps account of what the broker acknowledged."""

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Producer as RawProducer

from ottla.cli.record_input import InputRecord
from ottla.client.errors import ClientError, DeliveryError
from ottla.client.librdkafka import logger, on_error, to_error, translated
from ottla.client.settings import ProducerConfig

SERVE_EVERY = 256
"""Records between two looks at what was acknowledged: a look costs as much as a record."""
FLUSH_STEP_S = 0.2
"""How long Ctrl-C may wait while we wait for acknowledgements."""


class Sender:
    """One producer, one topic. Stops at the first record that is not acknowledged.

    Leaving its `with` block waits for what is on its way, whatever the reason for leaving.
    """

    def __init__(self, topic: str, config: ProducerConfig) -> None:
        self._topic = topic
        self._producer = RawProducer({**config.librdkafka(), "error_cb": on_error}, logger=logger)
        self._timeout_s = config.delivery_timeout_ms / 1_000
        self._first_error: ClientError | None = None
        self._spans: dict[int, tuple[int, int]] = {}
        self.acknowledged = 0
        self.bytes_acknowledged = 0

    def send_all(self, records: Iterable[InputRecord], rate: float | None, show: Callable[[int], None]) -> None:
        started = time.monotonic()
        for number, record in enumerate(records):
            if rate is not None:
                self._wait_until(started + number / rate)
            self._send(record)
            if rate is not None or number % SERVE_EVERY == 0:
                self._producer.poll(0)
                show(self.acknowledged)
                self._raise_if_failed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.finish()

    def finish(self) -> None:
        """Wait until everything is acknowledged. The first failure is raised, after the rest had its chance."""
        deadline = time.monotonic() + self._timeout_s
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.flush(FLUSH_STEP_S)
        self._raise_if_failed()
        if len(self._producer):
            raise DeliveryError(f"{len(self._producer)} records were not acknowledged within {self._timeout_s:g} s")

    def spans(self) -> list[tuple[int, tuple[int, int]]]:
        """First and last offset of each partition that was written, sorted."""
        return sorted(self._spans.items())

    def _send(self, record: InputRecord) -> None:
        optional: dict[str, Any] = {}
        if record.partition is not None:
            optional["partition"] = record.partition
        if record.timestamp_ms is not None:
            optional["timestamp"] = record.timestamp_ms
        if record.headers:
            optional["headers"] = list(record.headers)
        while True:
            try:
                with translated(f"sending to {self._topic}"):
                    self._producer.produce(
                        self._topic, record.value, record.key, on_delivery=self._on_delivery, **optional
                    )
                return
            except BufferError:  # what waits must go first: the input is read no faster than the broker takes it
                self._producer.poll(FLUSH_STEP_S)
                self._raise_if_failed()

    def _wait_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            self._producer.poll(min(left, FLUSH_STEP_S))

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._first_error = self._first_error or to_error(error, f"writing to {self._topic}")
            return
        self.acknowledged += 1
        self.bytes_acknowledged += len(message)
        partition, offset = message.partition(), message.offset()
        if offset is None:  # acks=0: nobody has said where it went
            return
        first, last = self._spans.get(partition, (offset, offset))
        self._spans[partition] = (min(first, offset), max(last, offset))

    def _raise_if_failed(self) -> None:
        if self._first_error is not None:
            raise self._first_error
