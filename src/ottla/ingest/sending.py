"""Sends events to a topic, by the Kafka protocol or over HTTP, and says which were acknowledged.

The Kafka producer is idempotent: each event is in the topic once. HTTP has no such thing; an event whose answer was
lost is sent again and may be there twice, which the ids of events are for. Over HTTP the time of a record is that of
its arrival, while Kafka clients say themselves when they sent it.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

from confluent_kafka import Producer

from ottla.client.errors import ClientError, DeliveryError, UnreachableError
from ottla.client.librdkafka import logger, on_error, to_error, translated
from ottla.client.settings import ProducerConfig
from ottla.ingest.events import Event

__all__ = ["HttpTransport", "KafkaTransport", "Transport", "send_all"]

HTTP_BATCH_MAX: Final = 500
HTTP_TIMEOUT_S: Final = 30.0
HTTP_TRIES: Final = 30
HTTP_RETRY_S: Final = 0.5
POLL_S: Final = 0.1
SERVE_EVERY: Final = 100

Acknowledged = Callable[[Event], None]


class Transport(Protocol):
    def send(self, event: Event) -> None:
        """Take it; it may wait to be sent together with others."""

    def serve(self, timeout_s: float) -> None:
        """Let what waits go on, for at most so long."""

    def finish(self) -> None:
        """Until everything is acknowledged. ClientError for the first event that was not."""


class KafkaTransport:
    def __init__(self, bootstrap: str, topic: str, acknowledged: Acknowledged) -> None:
        config = ProducerConfig(bootstrap_servers=bootstrap, client_id="ottla-ingest", linger_ms=20)
        self._producer = Producer({**config.librdkafka(), "error_cb": on_error}, logger=logger)
        self._topic = topic
        self._acknowledged = acknowledged
        self._timeout_s = config.delivery_timeout_ms / 1_000
        self._error: ClientError | None = None

    def send(self, event: Event) -> None:
        def delivered(error: Any, _: Any) -> None:
            if error is None:
                self._acknowledged(event)
            else:
                self._error = self._error or to_error(error, f"writing to {self._topic}")

        while True:
            try:
                with translated(f"sending to {self._topic}"):
                    self._producer.produce(
                        self._topic, event.value, event.key, timestamp=event.timestamp_ms, on_delivery=delivered
                    )
                return
            except BufferError:
                self.serve(POLL_S)

    def serve(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.flush(POLL_S)
        if self._error is not None:
            raise self._error
        if len(self._producer):
            raise DeliveryError(f"{len(self._producer)} events were not acknowledged within {self._timeout_s:g} s")


class HttpTransport:
    def __init__(self, url: str, topic: str, acknowledged: Acknowledged) -> None:
        place = urlsplit(url if "//" in url else f"//{url}", scheme="http")
        self._host, self._port = place.hostname or "localhost", place.port or 8080
        self._path = f"{place.path.rstrip('/')}/topics/{quote(topic, safe='')}/produce"
        self._connection: http.client.HTTPConnection | None = None
        self._acknowledged = acknowledged
        self._waiting: list[Event] = []

    def create_topic(self, partitions: int) -> None:
        """Unless it is there."""
        status, answer = self._ask(self._path.removesuffix("/produce"), json.dumps({"num_partitions": partitions}))
        if (status >= 300 and status != http.HTTPStatus.CONFLICT) or not status:
            raise UnreachableError(f"http://{self._host}:{self._port} answered {status or 'nothing'}: {answer}")

    def send(self, event: Event) -> None:
        self._waiting.append(event)
        if len(self._waiting) >= HTTP_BATCH_MAX:
            self._post()

    def serve(self, timeout_s: float) -> None:
        began = time.monotonic()
        self._post()
        time.sleep(max(0.0, timeout_s - (time.monotonic() - began)))

    def finish(self) -> None:
        self._post()
        if self._connection is not None:
            self._connection.close()

    def _post(self) -> None:
        if not self._waiting:
            return
        events, self._waiting = self._waiting, []
        body = json.dumps(
            [{"key": event.key.decode(), "value": event.value and event.value.decode()} for event in events]
        )
        for tries_left in reversed(range(HTTP_TRIES)):
            status, answer = self._ask(self._path, body)
            if 0 < status < 300:
                break
            if not tries_left or status not in (0, 429, 503):
                raise DeliveryError(f"http://{self._host}:{self._port}{self._path} answered {status}: {answer}")
            time.sleep(HTTP_RETRY_S)
        for event in events:
            self._acknowledged(event)

    def _ask(self, path: str, body: str) -> tuple[int, str]:
        """Status and text; 0 if there was no answer."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=HTTP_TIMEOUT_S)
        try:
            self._connection.request("POST", path, body, {"content-type": "application/json"})
            answer = self._connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            self._connection = None
            return 0, str(error) or type(error).__name__


def send_all(
    events: Iterable[Event], transport: Transport, *, paced: bool, stop: Callable[[], bool] = lambda: False
) -> None:
    """Each at its moment, or all at once. Returns when everything is acknowledged, or `stop` says so."""
    for number, event in enumerate(events):
        if stop():
            break
        if paced:
            while (left_s := event.timestamp_ms / 1_000 - time.time()) > 0 and not stop():
                transport.serve(min(left_s, POLL_S))
        transport.send(event)
        if number % SERVE_EVERY == 0:
            transport.serve(0)
    transport.finish()
