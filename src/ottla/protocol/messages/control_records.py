"""What is inside control batches: records that the brokers write for each other and for readers.

Key and value begin with the int16 of their version (`ottla.protocol.versioned`), except for the values of the metadata
quorum, where the version is a field.
"""

from collections.abc import Sequence

from ottla.protocol.primitives import NO_UUID, Uuid, int16, int32, int64, uint16
from ottla.protocol.schema import Data, Message, data, since


@data(versions=(0, 0))
class ControlRecordTypeSchema(Data):
    """The key of every control record."""

    type: int16 = 0


@data(versions=(0, 0))
class EndTxnMarker(Data):
    """A transaction ended; the type in the key says how."""

    coordinator_epoch: int32 = 0


class Voter(Message):
    voter_id: int32 = 0
    voter_directory_id: Uuid = since(1)


@data(versions=(0, 1), flexible_from=0)
class LeaderChangeMessage(Data):
    """A leader of the metadata quorum begins its epoch.

    v1   directory ids of the voters
    """

    version: int16 = 0
    leader_id: int32 = 0
    voters: Sequence[Voter] = ()
    granting_voters: Sequence[Voter] = ()


@data(versions=(0, 0), flexible_from=0)
class SnapshotHeaderRecord(Data):
    """The first record of a snapshot."""

    version: int16 = 0
    last_contained_log_timestamp: int64 = 0


@data(versions=(0, 0), flexible_from=0)
class SnapshotFooterRecord(Data):
    """The last record of a snapshot."""

    version: int16 = 0


@data(versions=(0, 0), flexible_from=0)
class KRaftVersionRecord(Data):
    """Which version of the quorum's own protocol is in use."""

    version: int16 = 0
    k_raft_version: int16 = 0


class Endpoint(Message):
    name: str = ""
    host: str = ""
    port: uint16 = 0


class KRaftVersionFeature(Message):
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class VotersRecordVoter(Message):
    voter_id: int32 = 0
    voter_directory_id: Uuid = NO_UUID
    endpoints: Sequence[Endpoint] = ()
    k_raft_version_feature: KRaftVersionFeature = since(0)


@data(versions=(0, 0), flexible_from=0)
class VotersRecord(Data):
    """The voters of the metadata quorum, from here on."""

    version: int16 = 0
    voters: Sequence[VotersRecordVoter] = ()
