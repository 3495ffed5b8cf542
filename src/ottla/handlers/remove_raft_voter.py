"""RemoveRaftVoter: a voter of the metadata quorum less. The leader may remove itself, and then hands over."""

from ottla.handlers.add_raft_voter import require_cluster
from ottla.handlers.registry import handles
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.services import Deferred, RequestContext


@handles(RemoveRaftVoterRequest, controller=True)
def remove_raft_voter(request: RemoveRaftVoterRequest, ctx: RequestContext) -> Deferred[RemoveRaftVoterResponse]:
    require_cluster(request.cluster_id, ctx)
    removed = ctx.services.quorum.remove_voter(request.voter_id, request.voter_directory_id)
    return removed.then(lambda _: RemoveRaftVoterResponse(error_message=None))
