"""BrokerRegistration (key 62): a broker that starts makes itself known to the controller.

v1   whether the broker is migrating from ZooKeeper (never, here)
v2   the ids of its log directories
v3   the epoch that it had before, if it was shut down cleanly
v4   a feature's lowest version may be 0
"""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int16, int32, int64, uint16
from ottla.protocol.schema import Message, Request, Response, request, response, since


class Listener(Message):
    name: str = ""
    host: str = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class Feature(Message):
    name: str = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@request(key=62, versions=(0, 4), flexible_from=0)
class BrokerRegistrationRequest(Request):
    broker_id: int32 = 0
    cluster_id: str = ""
    incarnation_id: Uuid = NO_UUID
    listeners: Sequence[Listener] = ()
    features: Sequence[Feature] = ()
    rack: str | None = ""
    is_migrating_zk_broker: bool = since(1)
    log_dirs: Sequence[Uuid] = since(2)
    previous_broker_epoch: int64 = since(3, default=-1)


@response(to=BrokerRegistrationRequest)
class BrokerRegistrationResponse(Response):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1
