"""AlterReplicaLogDirs (key 34): moves replicas between the log directories of a broker.

v2   is the first flexible version
"""

from collections.abc import Sequence

from ottla.protocol.primitives import int16, int32
from ottla.protocol.schema import Message, Request, Response, request, response


class AlterReplicaLogDirTopic(Message):
    name: str = ""
    partitions: Sequence[int32] = ()


class AlterReplicaLogDir(Message):
    path: str = ""
    topics: Sequence[AlterReplicaLogDirTopic] = ()


@request(key=34, versions=(1, 2), flexible_from=2)
class AlterReplicaLogDirsRequest(Request):
    dirs: Sequence[AlterReplicaLogDir] = ()


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = ""
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = ()


@response(to=AlterReplicaLogDirsRequest)
class AlterReplicaLogDirsResponse(Response):
    throttle_time_ms: int32 = 0
    results: Sequence[AlterReplicaLogDirTopicResult] = ()
