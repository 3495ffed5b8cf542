"""What administrators see of a group."""

from collections.abc import Collection

from ottla.errors import ErrorCode
from ottla.groups.group import Group
from ottla.groups.roster import Member
from ottla.groups.states import GroupState
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.protocol.messages.list_groups import ListedGroup

GROUP_TYPE = "classic"

NOT_FOUND_SINCE = 6
"""DescribeGroups version from which a group that is not there is an error (KIP-1043); before, it is a dead group."""


def described(group: Group, authorized_operations: int) -> DescribedGroup:
    """Protocol and subscriptions are shown of a stable group only: while it rebalances they are not settled."""
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=str(group.state),
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_described_member(member, protocol) for member in group.roster],
        authorized_operations=authorized_operations,
    )


def _described_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.subscription(protocol),
        member_assignment=member.assignment,
    )


def described_as_failed(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error, error_message=error.name)


def described_as_missing(group_id: str, api_version: int) -> DescribedGroup:
    if api_version < NOT_FOUND_SINCE:
        return DescribedGroup(group_id=group_id, group_state=str(GroupState.DEAD))
    return DescribedGroup(
        group_id=group_id,
        group_state=str(GroupState.DEAD),
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} not found.",
    )


def listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=str(group.state),
        group_type=GROUP_TYPE,
    )


def matches(group: Group, states: Collection[str], types: Collection[str]) -> bool:
    """Whether filters let a group pass. An empty one lets everything pass; case does not matter."""
    fits_state = not states or str(group.state).lower() in {state.strip().lower() for state in states}
    fits_type = not types or GROUP_TYPE in {kind.strip().lower() for kind in types}
    return fits_state and fits_type
