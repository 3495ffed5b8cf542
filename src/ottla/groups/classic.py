"""The life of one classic group.

Members join; once all have, or time is up, the group has a new generation with a leader among its members. The
leader gives everybody work in its sync, and everybody's sync is answered with it. From then on heartbeats keep
members in the group until one joins, leaves, fails or changes its mind, which starts over.

A rebalance is soft state: who has joined and what waits for an answer is only in memory, which may therefore be a
generation ahead of the log. What ends a rebalance is a record, and its replay (`adopt`) is what makes the group
Stable or Empty: here when it was just decided, and in the same way after a restart. So nothing may be decided on a
group between a decision that returned a record and its replay, which the shard sees to.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.effects import Effects
from ottla.groups.environment import Environment
from ottla.groups.group import Group
from ottla.groups.requests import Join, Sync
from ottla.groups.roster import NO_ASSIGNMENT, Member
from ottla.groups.states import GroupState
from ottla.groups.subscription import subscribed_topics
from ottla.groups.timers import Timer
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.replicated import Token

log = logging.getLogger(__name__)

NO_MEMBER_ID = ""

MEMBER_ID_REQUIRED_SINCE = 4
"""JoinGroup version from which a newcomer is first given an id and joins with it (KIP-394)."""
SKIP_ASSIGNMENT_SINCE = 9
"""JoinGroup version from which a returning static leader is told that it leads but has nothing to assign (KIP-814)."""

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A newcomer can't send heartbeats while it waits in its first join. If its client is gone, this ends it."""


class ClassicGroup(Group):
    """A group whose rebalances are run by one of its members."""

    __slots__ = (
        "_initial_until_ms",
        "_is_initial",
        "_join_timer",
        "_newcomers",
        "_not_synced",
        "_pending",
        "_sync_timer",
    )

    def __init__(self, group_id: str, env: Environment) -> None:
        super().__init__(group_id, env)
        self._pending: dict[str, Timer] = {}
        """Ids that were given out in a MEMBER_ID_REQUIRED and have not come back yet."""
        self._not_synced: set[str] = set()
        self._is_initial = False
        """The group was empty when this rebalance began: members that were started together get time to arrive."""
        self._initial_until_ms = 0
        self._newcomers = False
        self._join_timer = Timer(self._join_time_is_up)
        self._sync_timer = Timer(self._sync_time_is_up)

    # Joining

    def join(self, join: Join, now_ms: int, effects: Effects) -> None:
        if not self._has_room_for(join):
            self._turn_away(join.member_id, now_ms, effects)
            raise BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        self._require_common_protocol(join)
        if join.member_id == NO_MEMBER_ID:
            self._join_newcomer(join, now_ms, effects)
        elif join.member_id in self._pending and join.instance_id is None:
            self._add(join, join.member_id, now_ms, effects)
        else:
            self._rejoin(join, self.roster.require(join.member_id, join.instance_id), now_ms, effects)

    def _has_room_for(self, join: Join) -> bool:
        """During a rebalance those who have joined count: if the limit was lowered, the last to come are left out."""
        size_max = self.env.config.group_max_size
        if self.state is GroupState.EMPTY:
            return True
        member = self.roster.get(join.member_id) or self.roster.static_member(join.instance_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.join_token is not None) or self.roster.joined < size_max
        return member is not None or len(self.roster) < size_max

    def _turn_away(self, member_id: str, now_ms: int, effects: Effects) -> None:
        self._drop_pending(member_id)
        member = self.roster.get(member_id)
        if member is not None:
            self._remove(member, effects)
        self._complete_join_if_all_are_here(now_ms, effects)

    def _require_common_protocol(self, join: Join) -> None:
        names = [name for name, _ in join.protocols]
        if self.state is GroupState.EMPTY:
            fits = bool(join.protocol_type and names)
        else:
            fits = join.protocol_type == self.protocol_type and self.roster.supports(names)
        if not fits:
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _join_newcomer(self, join: Join, now_ms: int, effects: Effects) -> None:
        member_id = self.env.new_member_id(join.client_id if join.instance_id is None else join.instance_id)
        returning = self.roster.static_member(join.instance_id)
        if returning is not None:
            self._replace_static(join, returning, member_id, now_ms, effects)
        elif join.instance_id is None and join.api_version >= MEMBER_ID_REQUIRED_SINCE:
            self._await_with_id(join, member_id, now_ms, effects)
        else:
            self._add(join, member_id, now_ms, effects)

    def _await_with_id(self, join: Join, member_id: str, now_ms: int, effects: Effects) -> None:
        """Give out an id first, so that a client that never hears the answer leaves no member behind."""

        def forget(now_ms: int, effects: Effects) -> None:
            self._drop_pending(member_id)
            self._complete_join_if_all_are_here(now_ms, effects)

        timer = self._pending[member_id] = Timer(forget)
        self.env.timers.set(timer, now_ms + join.session_timeout_ms)
        effects.reply(join.token, JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))

    def _add(self, join: Join, member_id: str, now_ms: int, effects: Effects) -> None:
        self._drop_pending(member_id)
        if not len(self.roster):
            self.protocol_type = join.protocol_type
        member = self.new_member(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
            protocols=join.protocols,
        )
        member.is_new = True
        self._newcomers = True
        self.roster.wait_for_join(member, join.token)
        self.env.timers.set(member.session, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance(f"{member_id} joins; client says: {join.reason}", now_ms, effects)

    def _rejoin(self, join: Join, member: Member, now_ms: int, effects: Effects) -> None:
        same = member.protocols == join.protocols
        is_leader = member.member_id == self.roster.leader_id
        if self.state is GroupState.STABLE:
            # The leader rejoins when it sees a change that is not in anybody's metadata, such as a new partition.
            stays = same and not is_leader
        else:
            # Same metadata while a rebalance is completing: the answer to its join was lost.
            stays = same and self.state is GroupState.COMPLETING_REBALANCE
        if stays:
            effects.reply(join.token, self.joined(member))
            return
        self._update(join, member)
        self._wait_for_join(member, join.token, effects)
        self._rebalance(f"{member.member_id} rejoins; client says: {join.reason}", now_ms, effects)

    def _update(self, join: Join, member: Member) -> None:
        self.roster.set_protocols(member, join.protocols)
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.session_timeout_ms = join.session_timeout_ms

    def _wait_for_join(self, member: Member, token: Token, effects: Effects) -> None:
        replaced = self.roster.wait_for_join(member, token)
        if replaced is not None:
            # The client gave up on its earlier request. Whatever it is told, it must be told something: answers of one
            # connection go out in order.
            effects.reply(replaced, _join_refused(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))

    # Static members that come back

    def _replace_static(self, join: Join, member: Member, new_id: str, now_ms: int, effects: Effects) -> None:
        old_leader_id = self.roster.leader_id
        topics = subscribed_topics(member.subscription(self.protocol))
        self._answer_waiting(member, ErrorCode.FENCED_INSTANCE_ID, effects)
        if member.member_id in self._not_synced:
            self._not_synced.remove(member.member_id)
            self._not_synced.add(new_id)
        self.roster.rename(member, new_id)
        member.client_id, member.client_host = join.client_id, join.client_host
        self._update(join, member)
        self.restart_session(member, now_ms)

        same_work = (
            self.state is GroupState.STABLE
            and self.roster.select_protocol() == self.protocol
            # Kafka does not compare topics, and leaves a consumer that was restarted with others without them.
            and subscribed_topics(member.subscription(self.protocol)) == topics
        )
        if same_work:
            self._keep_place(join, member, old_leader_id, effects)
        else:
            self.roster.wait_for_join(member, join.token)
            self._rebalance(f"static member {join.instance_id} is back; client says: {join.reason}", now_ms, effects)

    def _keep_place(self, join: Join, member: Member, old_leader_id: str | None, effects: Effects) -> None:
        """It gets the assignment that it had, and nobody else notices: what static membership is for."""
        assignments = {each.member_id: each.assignment for each in self.roster}
        effects.records.append(self.stable_record(assignments, self.state_timestamp_ms))
        if join.api_version >= SKIP_ASSIGNMENT_SINCE:
            is_leader = member.member_id == self.roster.leader_id
            answer = self.joined(member, skip_assignment=is_leader)
        else:
            # The old leader's id keeps a returning leader from computing an assignment that would not be used.
            answer = self.joined(member, leader_id=old_leader_id)
        effects.reply(join.token, answer)

    # The rebalance

    def _rebalance(self, reason: str, now_ms: int, effects: Effects) -> None:
        """Begin one, or see whether the one that is under way can end its first phase."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_all_are_here(now_ms, effects)
            return
        log.info(
            "group rebalances",
            extra={"group": self.group_id, "generation": self.generation, "state": str(self.state), "reason": reason},
        )
        self._stop_syncing(now_ms, effects)
        self._is_initial = self.state is GroupState.EMPTY
        self.move_to(GroupState.PREPARING_REBALANCE)
        if self._is_initial:
            self._await_newcomers(now_ms, effects)
        elif self._all_are_here():
            self._complete_join(now_ms, effects)
        else:
            self.env.timers.set(self._join_timer, now_ms + self.roster.rebalance_timeout_ms())

    def _stop_syncing(self, now_ms: int, effects: Effects) -> None:
        self._not_synced.clear()
        self.env.timers.cancel(self._sync_timer)
        for member in self.roster:
            if member.sync_token is not None:
                self._refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, effects)
                self.restart_session(member, now_ms)  # it may have ended unnoticed while the member waited

    def _await_newcomers(self, now_ms: int, effects: Effects) -> None:
        delay_ms = self.env.config.group_initial_rebalance_delay_ms
        self._newcomers = False
        self._initial_until_ms = now_ms + max(delay_ms, self.roster.rebalance_timeout_ms())
        if delay_ms:
            self.env.timers.set(self._join_timer, now_ms + delay_ms)
        else:
            self._complete_join(now_ms, effects)

    def _join_time_is_up(self, now_ms: int, effects: Effects) -> None:
        if self._is_initial and self._newcomers and now_ms < self._initial_until_ms:
            self._newcomers = False
            delay_ms = self.env.config.group_initial_rebalance_delay_ms
            self.env.timers.set(self._join_timer, min(now_ms + delay_ms, self._initial_until_ms))
        else:
            self._complete_join(now_ms, effects)

    def _all_are_here(self) -> bool:
        return self.roster.all_joined and not self._pending

    def _complete_join_if_all_are_here(self, now_ms: int, effects: Effects) -> None:
        if self.state is GroupState.PREPARING_REBALANCE and not self._is_initial and self._all_are_here():
            self._complete_join(now_ms, effects)

    def _complete_join(self, now_ms: int, effects: Effects) -> None:
        """End the first phase with whoever is here. Static members keep their place even if they are not."""
        self.env.timers.cancel(self._join_timer)
        for member in self.roster.not_joined():
            if not member.is_static:
                self._remove(member, effects)
        if not len(self.roster):
            effects.records.append(self.empty_record(now_ms))
        elif self.roster.elect_joined_leader():
            self._begin_generation(now_ms, effects)
        else:
            # Only static members, and none is here: wait until they come, or until their sessions end.
            self.env.timers.set(self._join_timer, now_ms + self.roster.rebalance_timeout_ms())

    def _begin_generation(self, now_ms: int, effects: Effects) -> None:
        self.generation = self.next_generation()
        self.protocol = self.roster.select_protocol()
        self._is_initial = False
        self.move_to(GroupState.COMPLETING_REBALANCE)
        for member in self.roster:
            token = self.roster.take_join_token(member)
            if token is not None:
                effects.reply(token, self.joined(member))
            member.is_new = False
            self.restart_session(member, now_ms)
            self._not_synced.add(member.member_id)
        self.env.timers.set(self._sync_timer, now_ms + self.roster.rebalance_timeout_ms())

    # Syncing

    def sync(self, sync: Sync, now_ms: int, effects: Effects) -> None:
        member = self.require_current(sync.member_id, sync.instance_id, sync.generation)
        if _differs(sync.protocol_type, self.protocol_type) or _differs(sync.protocol, self.protocol):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._note_sync(member)
        if self.state is GroupState.STABLE:
            effects.reply(sync.token, self.assigned(member.assignment))
            return
        # An earlier sync that still waits is one that its client gave up on.
        self._refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, effects)
        member.sync_token = sync.token
        if member.member_id == self.roster.leader_id:
            self._assign(sync.assignments, now_ms, effects)

    def _note_sync(self, member: Member) -> None:
        self._not_synced.discard(member.member_id)
        if not self._not_synced:
            self.env.timers.cancel(self._sync_timer)

    def _assign(self, assignments: Mapping[str, bytes], now_ms: int, effects: Effects) -> None:
        effects.records.append(self.stable_record(assignments, now_ms))
        for member in self.roster:
            token, member.sync_token = member.sync_token, None
            if token is not None:
                effects.reply(token, self.assigned(assignments.get(member.member_id, NO_ASSIGNMENT)))
                self.restart_session(member, now_ms)

    def _refuse_sync(self, member: Member, error: ErrorCode, effects: Effects) -> None:
        token, member.sync_token = member.sync_token, None
        if token is not None:
            effects.reply(token, SyncGroupResponse(error_code=error))

    def _sync_time_is_up(self, now_ms: int, effects: Effects) -> None:
        late = [member for member in self.roster if member.member_id in self._not_synced]
        for member in late:
            self._remove(member, effects)
        if late:
            self._rebalance(f"{len(late)} members did not sync in time", now_ms, effects)

    # Staying

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        member = self.require_current(member_id, instance_id, generation)
        self.restart_session(member, now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> None:
        """Whether offsets may be committed; if so, it counts as a heartbeat."""
        if generation < 0 and self.state is GroupState.EMPTY:
            return  # an admin tool, or a consumer that assigns partitions by itself
        if generation < 0 and not member_id and instance_id is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.require_current(member_id, instance_id, generation)
        if self.state is GroupState.COMPLETING_REBALANCE:
            # The member knows of the new generation but not of its assignment: what it commits may be another's by now.
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
        self.restart_session(member, now_ms)

    def check_transactional_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Older clients do not say who they are; a rebalance under way is no reason to refuse those who do."""
        if generation >= 0 or ((member_id or instance_id is not None) and self.state is not GroupState.EMPTY):
            self.require_current(member_id, instance_id, generation)

    # Leaving

    def leave(
        self, leavers: Sequence[tuple[str, str | None]], reason: str, now_ms: int, effects: Effects
    ) -> list[ErrorCode]:
        """Take several out at once, by member id and instance id, with one rebalance for all of them."""
        size = len(self.roster)
        errors = [self._leave(member_id, instance_id, effects) for member_id, instance_id in leavers]
        if len(self.roster) < size:
            self._rebalance(reason, now_ms, effects)
        else:
            self._complete_join_if_all_are_here(now_ms, effects)
        return errors

    def _leave(self, member_id: str, instance_id: str | None, effects: Effects) -> ErrorCode:
        if member_id in self._pending:
            self._drop_pending(member_id)
            return ErrorCode.NONE
        try:
            member = self._leaver(member_id, instance_id)
        except BrokerError as refusal:
            return refusal.code
        self._remove(member, effects)
        return ErrorCode.NONE

    def _leaver(self, member_id: str, instance_id: str | None) -> Member:
        """An administrator may remove a static member by its instance id alone."""
        named = self.roster.static_member(instance_id) if member_id == NO_MEMBER_ID else None
        return named or self.roster.require(member_id, instance_id)

    def session_is_over(self, member: Member, now_ms: int, effects: Effects) -> None:
        if member.is_waiting and not member.is_new:
            return  # it waits for us: its session starts again with the answer
        self._remove(member, effects)
        self._rebalance(f"{member.member_id} was not heard of", now_ms, effects)

    def _remove(self, member: Member, effects: Effects) -> None:
        """UNKNOWN_MEMBER_ID makes a client that is still there join anew."""
        self._answer_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID, effects)
        self._not_synced.discard(member.member_id)
        self.discharge(member)

    def _answer_waiting(self, member: Member, error: ErrorCode, effects: Effects) -> None:
        token = self.roster.take_join_token(member)
        if token is not None:
            told_id = NO_MEMBER_ID if error is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
            effects.reply(token, _join_refused(told_id, error))
        self._refuse_sync(member, error, effects)

    def _drop_pending(self, member_id: str) -> None:
        timer = self._pending.pop(member_id, None)
        if timer is not None:
            self.env.timers.cancel(timer)

    def loaded(self, now_ms: int, effects: Effects) -> None:
        """Read back from the log: from now on its members must be heard of, as if they just had been."""
        for member in self.roster:
            if member.session.deadline_ms is None and not member.is_waiting:
                self.restart_session(member, now_ms)
        if len(self.roster) > self.env.config.group_max_size:
            self._rebalance("the group is larger than it may be", now_ms, effects)

    # The end

    def close(self, effects: Effects) -> None:
        """The shard is given up: whoever waits must look for the group's new coordinator."""
        for member in self.roster:
            self._answer_waiting(member, ErrorCode.NOT_COORDINATOR, effects)
        self.forget()
        self.move_to(GroupState.DEAD)

    def forget(self) -> None:
        """Nothing more will happen to it."""
        for member in list(self.roster):
            self.discharge(member)
        for member_id in list(self._pending):
            self._drop_pending(member_id)
        self.env.timers.discard(self._join_timer)
        self.env.timers.discard(self._sync_timer)

    @property
    def is_idle(self) -> bool:
        """Nobody is in it or about to be: it may be deleted once it has no offsets."""
        return self.state is GroupState.EMPTY and not self._pending


def _differs(said: str | None, known: str | None) -> bool:
    """Only what both sides name can be different: before SyncGroup v5 clients do not."""
    return said is not None and known is not None and said != known


def _join_refused(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(member_id=member_id, error_code=error)
