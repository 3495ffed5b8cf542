"""Whatever members do, in whatever order: what must always hold."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.errors import ErrorCode
from ottla.groups.classic import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.groups.records import GroupMetadata, GroupRecord
from ottla.groups.shard import GroupShard
from ottla.groups.states import TRANSITIONS, GroupState
from ottla.replicated import Result
from tests.groups.harness import REBALANCE_MS, Client, Host, refused, subscription
from tests.ticket import Ticket

GROUP = "g"
NAMES = ("a", "b", "s", "z")
"""The last two are static."""

VERSIONS = (0, 3, 4, 8, 9)
"""Of JoinGroup: on both sides of what has changed."""

FENCED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.MEMBER_ID_REQUIRED,
}


class WatchedHost(Host):
    """Checks that records end a rebalance only where the table of states has a way."""

    def _carry_out(self, result: Result[GroupRecord, Any]) -> None:
        for record in result.records:
            if isinstance(record, GroupMetadata):
                before = GroupState(self.state_of(record.group_id))
                after = GroupState.STABLE if record.members else GroupState.EMPTY
                assert after in TRANSITIONS[before] | {before} - {GroupState.EMPTY}
        super()._carry_out(result)


class Schedules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.host = WatchedHost()
        self.clients = {name: self._new_client(name) for name in NAMES}
        self.joins: dict[str, tuple[Ticket, int]] = {}
        self.syncs: dict[str, tuple[Client, Ticket]] = {}
        self.era = 0
        """Counts what makes generations begin again: deletions, and restarts that forget one that is not in the log."""
        self.leaders: dict[tuple[int, int], set[str]] = defaultdict(set)

    def _new_client(self, name: str) -> Client:
        return Client(self.host, GROUP, name, instance_id=name if name in "sz" else None)

    # What members do

    @rule(
        name=st.sampled_from(NAMES), api_version=st.sampled_from([0, 3, 4, 8, 9]), topics=st.sampled_from(["t", "tu"])
    )
    def joins_group(self, name: str, api_version: int, topics: str) -> None:
        client = self.clients[name]
        client.protocols = [("range", subscription(*topics)), ("sticky", subscription(*topics))]
        ticket = client.join(api_version if client.instance_id is None else max(api_version, 5))
        self.joins[name] = (ticket, self.era)

    @rule(name=st.sampled_from(NAMES))
    def takes_in_the_answer_to_its_join(self, name: str) -> None:
        if name not in self.joins or self.joins[name][0].waits:
            return
        ticket, era = self.joins.pop(name)
        answer, client = ticket.answer, self.clients[name]
        if answer.error_code == ErrorCode.NONE:
            client.member_id, client.generation = answer.member_id, answer.generation_id
            if answer.members and not answer.skip_assignment:
                self.leaders[era, answer.generation_id].add(answer.leader)
                assert answer.leader == answer.member_id
                self._sync(client, {member.member_id: member.member_id.encode() for member in answer.members})
            else:
                self._sync(client, {})
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        else:
            assert answer.error_code in FENCED
            self.clients[name] = self._new_client(name)

    def _sync(self, client: Client, assignments: dict[str, bytes]) -> None:
        asked: list[Ticket] = []
        error = refused(lambda: asked.append(client.sync(assignments)))
        if asked:
            self.syncs[client.name] = (client, asked[0])
        else:
            assert error in FENCED

    @rule(name=st.sampled_from(NAMES))
    def syncs_again(self, name: str) -> None:
        if self.clients[name].generation >= 0:
            self._sync(self.clients[name], {})

    @rule(name=st.sampled_from(NAMES))
    def sends_a_heartbeat(self, name: str) -> None:
        assert refused(self.clients[name].heartbeat) in FENCED | {ErrorCode.NONE}

    @rule(name=st.sampled_from(NAMES), offset=st.integers(0, 9))
    def commits(self, name: str, offset: int) -> None:
        self.clients[name].commit({("t", 0): offset})

    @rule(name=st.sampled_from(NAMES))
    def leaves(self, name: str) -> None:
        self.clients[name].leave()
        self.clients[name] = self._new_client(name)

    @rule(name=st.sampled_from(NAMES))
    def restarts(self, name: str) -> None:
        self.clients[name] = self._new_client(name)
        self.joins.pop(name, None)

    # What happens to them

    @rule(delay_ms=st.sampled_from([1, 50, 100, 3_000, 10_000, 60_000]))
    def time_passes(self, delay_ms: int) -> None:
        self.host.after(delay_ms)

    @rule()
    def the_coordinator_restarts(self) -> None:
        for reply in self.host.shard.unload().replies:
            self.host._deliver(reply)
        self.host.restart()
        self.era += 1

    @rule()
    def the_group_is_deleted(self) -> None:
        if self.host.call(lambda shard, _, __: shard.delete_group(GROUP)).answer.error_code == ErrorCode.NONE:
            self.era += 1

    # What must hold

    @invariant()
    def nobody_is_answered_twice(self) -> None:
        assert all(len(ticket.answers) <= 1 for ticket in self.host.tickets)

    @invariant()
    def a_stable_group_is_the_same_when_it_is_read_from_its_log(self) -> None:
        live, loaded = logged_state(self.host.shard), logged_state(self.host.loaded())
        assert loaded.keys() >= live.keys()
        for group_id, state in live.items():
            assert loaded[group_id] == state

    @invariant()
    def a_generation_has_one_leader(self) -> None:
        assert all(len(leaders) == 1 for leaders in self.leaders.values())

    @invariant()
    def everybody_gets_its_own_assignment_and_nobody_elses(self) -> None:
        for name, (client, ticket) in list(self.syncs.items()):
            if ticket.waits:
                continue
            del self.syncs[name]
            if ticket.answer.error_code == ErrorCode.NONE and client.instance_id is None:
                assert ticket.answer.assignment in (b"", client.member_id.encode())

    def teardown(self) -> None:
        """When all fall silent, everybody who waits is told something, and the group ends up empty."""
        self.host.after(2 * NEW_MEMBER_JOIN_TIMEOUT_MS + 10 * REBALANCE_MS)
        assert not [ticket for ticket in self.host.tickets if ticket.waits]
        assert self.host.state_of(GROUP) in ("Empty", "Dead")


def logged_state(shard: GroupShard) -> dict[str, Any]:
    """What a shard knows of groups that are not in the middle of a rebalance, and of all offsets."""
    groups: dict[str, Any] = {}
    for group in shard._groups.values():
        if group.state in (GroupState.STABLE, GroupState.EMPTY):
            members = {
                member.member_id: (member.instance_id, member.subscription(group.protocol), member.assignment)
                for member in group.roster
            }
            head = (group.state, group.generation, group.protocol, group.protocol_type, group.roster.leader_id)
            if group.is_logged or group.group_id in shard._offsets:
                groups[group.group_id] = (head, members)
    groups["offsets"] = sorted(shard._offsets.all())
    return groups


TestSchedules = Schedules.TestCase
TestSchedules.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
