"""Quotas: a client that sends or reads more than its share is told to wait, and does."""

from confluent_kafka import TopicPartition

from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from tests.interop.confluent import new_consumer, new_producer, send
from tests.interop.waiting import eventually
from tests.robustness.raw_client import RawClient


def _limit(bootstrap: str, client_id: str, key: str, bytes_per_second: float) -> None:
    entity = EntityData(entity_type="client-id", entity_name=client_id)
    entry = RequestEntryData(entity=[entity], ops=[OpData(key=key, value=bytes_per_second)])
    with RawClient(bootstrap) as client:
        answer = client.call(AlterClientQuotasRequest(entries=[entry]), 1, AlterClientQuotasResponse)
    assert answer.entries[0].error_code == 0


def test_a_producer_over_its_quota_is_throttled(bootstrap: str, topic: str, unique: str) -> None:
    _limit(bootstrap, unique, "producer_byte_rate", 20_000)
    throttled: list[float] = []
    producer = new_producer(
        bootstrap, client_id=unique, linger_ms=0, throttle_cb=lambda event: throttled.append(event.throttle_time)
    )

    def told() -> bool:
        send(producer, topic, [b"x" * 5_000] * 20)
        return any(seconds > 0 for seconds in throttled)

    eventually(told)


def test_a_consumer_over_its_quota_is_throttled_and_one_below_is_not(bootstrap: str, topic: str, unique: str) -> None:
    _limit(bootstrap, unique, "consumer_byte_rate", 20_000)
    send(new_producer(bootstrap), topic, [b"x" * 10_000] * 100)
    throttled: list[float] = []

    def consumer(client_id: str) -> None:
        one = new_consumer(
            bootstrap,
            client_id=client_id,
            fetch_message_max_bytes=50_000,
            throttle_cb=lambda event: throttled.append(event.throttle_time),
        )
        one.assign([TopicPartition(topic, 0, 0)])
        eventually(lambda: any(m.offset() == 99 for m in one.consume(100, 0.1)) or any(throttled), within_s=30)
        one.close()

    consumer("another client")
    assert not any(throttled)
    consumer(unique)
    assert any(throttled)
