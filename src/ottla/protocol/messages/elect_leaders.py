"""ElectLeaders (key 43): makes the preferred replica, or any replica, the leader.

v1   the type of election, and an error code for the whole answer
v2   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int8, int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response, since


class TopicPartitions(Message):
    topic: str = ""
    partitions: Sequence[int32] = ()


@request(key=43, versions=(0, 2), flexible_from=2)
class ElectLeadersRequest(Request):
    election_type: int8 = since(1)
    topic_partitions: Sequence[TopicPartitions] | None = ()
    timeout_ms: int32 = 60000


class PartitionResult(Message):
    partition_id: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""


class ReplicaElectionResult(Message):
    topic: str = ""
    partition_result: Sequence[PartitionResult] = ()


@response(to=ElectLeadersRequest)
class ElectLeadersResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(1)
    replica_election_results: Sequence[ReplicaElectionResult] = ()
