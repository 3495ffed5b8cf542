"""A controller with brokers, and the part of the runtime that a test needs: write what was decided, then answer."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

from ottla.config import BrokerConfig
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.controller import Controller
from ottla.metadata.image import BrokerImage, Endpoint
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from ottla.replicated import Result

T = TypeVar("T")


def a_controller(
    brokers: int = 1, *, racks: Sequence[str] = (), config: BrokerConfig | None = None, seed: int = 0
) -> Controller:
    controller = Controller(config or BrokerConfig(), random.Random(seed))
    for number in range(1, brokers + 1):
        commit(controller, controller.register_broker(registration(number, racks[number - 1] if racks else None)))
    return controller


def registration(broker_id: int, rack: str | None = None, *, incarnation: int = 0) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=broker_id,
        incarnation_id=bytes([broker_id]) * 15 + bytes([incarnation]),
        endpoints=[Endpoint("PLAINTEXT", f"host-{broker_id}", 9092, 0)],
        rack=rack,
    )


def commit(controller: Controller, result: Result[MetadataRecord, T]) -> T:
    """Replay the records as they come back from a log; the answer."""
    for record in result.records:
        controller.replay(decode_record(*encode_record(record)))
    assert result.response is not None
    return result.response


def create(
    controller: Controller,
    *names: str,
    partitions: int = 1,
    replication_factor: int = 1,
    configs: Mapping[str, str] | None = None,
) -> Sequence[CreatableTopicResult]:
    topics = [topic(name, partitions, replication_factor, configs or {}) for name in names]
    return commit(controller, controller.create_topics(CreateTopicsRequest(topics=topics))).topics


def topic(
    name: str, partitions: int = 1, replication_factor: int = 1, configs: Mapping[str, str | None] | None = None
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def a_broker(broker_id: int, rack: str | None = None, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=0,
        incarnation_id=bytes(16),
        endpoints=(Endpoint("PLAINTEXT", "h", 9092, 0),),
        rack=rack,
        fenced=fenced,
    )
