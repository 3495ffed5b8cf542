import subprocess
import sys

import pytest

from ottla.protocol.fields import NEVER, struct_default
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata_records import NoOpRecord
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.produce import PartitionProduceResponse, ProduceRequest
from tests.protocol.catalog import REQUESTS


def test_every_field_has_a_default() -> None:
    assert FetchRequest().max_bytes == 2**31 - 1
    assert FetchRequest().topics == ()
    assert FetchPartition().replica_directory_id == bytes(16)
    assert HeartbeatRequest().group_instance_id is None
    assert HeartbeatRequest().group_id == ""
    assert not InitProducerIdRequest().enable2_pc
    assert NoOpRecord() == NoOpRecord()


def test_the_default_of_a_struct_is_one_shared_instance() -> None:
    leader = PartitionProduceResponse().current_leader

    assert leader is PartitionProduceResponse().current_leader
    assert leader is struct_default(type(leader))
    assert leader.leader_id == -1


def test_messages_are_equal_by_their_fields_and_lists_equal_tuples() -> None:
    assert FetchRequest(topics=[]) == FetchRequest(topics=())
    assert HeartbeatRequest(group_id="a") != HeartbeatRequest(group_id="b")
    assert HeartbeatRequest() != HeartbeatResponse()
    with pytest.raises(TypeError, match="no hash"):
        hash(HeartbeatRequest())


def test_a_message_prints_as_it_would_be_written() -> None:
    assert repr(HeartbeatResponse(error_code=27)) == "HeartbeatResponse(throttle_time_ms=0, error_code=27)"


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError):
        HeartbeatRequest(group="g")  # type: ignore[call-arg]  # that is what the test is about
    with pytest.raises(AttributeError):
        HeartbeatRequest().group = "g"  # type: ignore[attr-defined]  # that is what the test is about


def test_requests_know_their_key_versions_and_response() -> None:
    assert HeartbeatRequest.api_key == HeartbeatResponse.api_key == 12
    assert HeartbeatRequest.versions == HeartbeatResponse.versions == (0, 4)
    assert HeartbeatRequest.flexible_from == 4
    assert HeartbeatRequest.response is HeartbeatResponse
    assert OffsetDeleteRequest.flexible_from == NEVER
    assert HeartbeatRequest.field_names() == ("group_id", "generation_id", "member_id", "group_instance_id")


def test_produce_is_advertised_from_zero_and_everything_else_as_it_is_served() -> None:
    assert ProduceRequest.versions[0] == 3
    assert ProduceRequest.advertised_from == 0
    assert [r for r in REQUESTS if r.advertised_from != r.versions[0]] == [ProduceRequest]


def test_no_two_apis_share_a_key() -> None:
    keys = [cls.api_key for cls in REQUESTS]
    assert len(set(keys)) == len(keys)


def test_importing_tables_compiles_nothing() -> None:
    """Start-up is budgeted: constructors and codecs are compiled when they are first used."""
    program = """
import builtins
compiled = []
real_exec = builtins.exec
def counting_exec(source, *rest):
    if isinstance(source, str):
        compiled.append(source)
    real_exec(source, *rest)
builtins.exec = counting_exec
import importlib, pkgutil, collections, typing, enum, struct
from ottla.protocol import messages
compiled.clear()
for found in pkgutil.iter_modules(messages.__path__):
    importlib.import_module(f"{messages.__name__}.{found.name}")
assert compiled == [], compiled
from ottla.protocol.messages.heartbeat import HeartbeatRequest
HeartbeatRequest()
assert len(compiled) == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
