"""AddRaftVoter: one more voter for the metadata quorum. It must follow the log already, and gets time to catch up."""

from ottla.errors import BrokerError, ErrorCode
from ottla.handlers.registry import handles
from ottla.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.services import Deferred, RequestContext


@handles(AddRaftVoterRequest, controller=True)
def add_raft_voter(request: AddRaftVoterRequest, ctx: RequestContext) -> Deferred[AddRaftVoterResponse]:
    require_cluster(request.cluster_id, ctx)
    added = ctx.services.quorum.add_voter(
        request.voter_id, request.voter_directory_id, timeout_ms=max(0, request.timeout_ms)
    )
    return added.then(lambda _: AddRaftVoterResponse(error_message=None))


def require_cluster(cluster_id: str | None, ctx: RequestContext) -> None:
    """Who names a cluster means that one."""
    if cluster_id is not None and cluster_id != ctx.services.cluster_id:
        raise BrokerError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {ctx.services.cluster_id}")
