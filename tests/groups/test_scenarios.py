"""Rebalances as transcripts: tests/scenarios/groups.

    a joins [v3] [topics=t,u] [by=range,sticky] [rebalance=5s] [session=30s]     a static member is named like s!
    a syncs [a=work b=work ...] | a heartbeats | a leaves | a commits t0=5 | a crashes (and knows nothing any more)
    old a heartbeats                                                             the incarnation before the last crash
    admin removes s! | admin commits t0=5 | admin deletes | coordinator restarts | 3s pass

What happened is what was written and who was told what, then the group's state and generation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.groups.records import GroupMetadata, GroupRecord
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.leave_group import MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.replicated import Reply, Result
from tests.groups.harness import Client, Host, subscription
from tests.scenarios import check_scenario, scenario_files
from tests.ticket import Ticket

GROUP = "g"
UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000}


@pytest.mark.parametrize("path", scenario_files("groups"), ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check_scenario(path, Stage().run, request)


class Stage(Host):
    """Runs commands, and tells what comes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Client] = {}
        self.old: dict[str, Client] = {}
        self.aliases: dict[str, str] = {"": "nobody"}
        self.askers: dict[int, str] = {}
        self.events: list[str] = []

    def run(self, command: str) -> str:
        self.events = []
        self._dispatch(command.split())
        listed = [group for group in self.shard._groups.values() if group.group_id == GROUP]
        state = f"{listed[0].state} {listed[0].generation}" if listed else "no group"
        return f"{'; '.join(self.events) or 'nothing'} [{state}]"

    def _dispatch(self, words: list[str]) -> None:
        match words:
            case [duration, "pass"]:
                self.after(milliseconds(duration))
            case ["coordinator", "restarts"]:
                for reply in self.shard.unload().replies:
                    self._deliver(reply)
                self.restart()
            case ["admin", verb, *arguments]:
                self._administrate(verb, arguments)
            case ["old", name, verb, *arguments]:
                self._act(self.old[name], f"old {name}", verb, arguments)
            case [name, "crashes"]:
                self.old[name] = self.clients.pop(name)
            case [name, verb, *arguments]:
                self._act(self.clients.get(name) or self._enter(name), name, verb, arguments)

    def _enter(self, name: str) -> Client:
        plain = name.rstrip("!")
        self.clients[name] = Client(self, GROUP, plain, instance_id=plain if name.endswith("!") else None)
        return self.clients[name]

    def _act(self, client: Client, who: str, verb: str, arguments: Sequence[str]) -> None:
        acts: dict[str, Callable[[], object]] = {
            "joins": lambda: self._join(client, arguments),
            "syncs": lambda: self._sync(client, arguments),
            "heartbeats": client.heartbeat,
            "leaves": lambda: told(*(member.error_code for member in client.leave().members)),
            "commits": lambda: told(*client.commit(offsets_of(arguments)).values()),
        }
        try:
            outcome = acts[verb]()
        except BrokerError as error:
            outcome = error.code.name
        if isinstance(outcome, Ticket):
            self._asked(who, outcome)
        else:
            self.events.append(f"{who}: {outcome or 'ok'}")

    def _asked(self, who: str, ticket: Ticket) -> None:
        self.askers[id(ticket)] = who
        self.events.append(f"{who} waits" if ticket.waits else self._answered(who, ticket.answer))

    def _join(self, client: Client, arguments: Sequence[str]) -> Ticket:
        options = dict(argument.split("=") for argument in arguments if "=" in argument)
        versions = [int(argument[1:]) for argument in arguments if re.fullmatch(r"v\d+", argument)]
        topics = options.get("topics", "t").split(",")
        client.protocols = [(name, subscription(*topics)) for name in options.get("by", "range").split(",")]
        client.rebalance_ms = milliseconds(options.get("rebalance", "60s"))
        client.session_ms = milliseconds(options.get("session", "10s"))
        return client.join(*versions)

    def _sync(self, client: Client, arguments: Sequence[str]) -> Ticket:
        work = dict(argument.split("=") for argument in arguments)
        return client.sync({self.clients[name].member_id: given.encode() for name, given in work.items()})

    def _administrate(self, verb: str, arguments: Sequence[str]) -> None:
        if verb == "removes":
            leavers = [MemberIdentity(member_id="", group_instance_id=name.rstrip("!")) for name in arguments]
            response = self.call(lambda shard, _, now_ms: shard.leave_group(GROUP, leavers, now_ms)).answer
            errors = [member.error_code for member in response.members]
        elif verb == "commits":
            errors = list(self.commit(GROUP, offsets_of(arguments)).values())
        else:
            errors = [self.call(lambda shard, _, __: shard.delete_group(GROUP)).answer.error_code]
        self.events.append(f"admin: {told(*errors)}")

    # Telling

    def _carry_out(self, result: Result[GroupRecord, Any]) -> None:
        self.events += [f"log: {self._written(record)}" for record in result.records]
        super()._carry_out(result)

    def _written(self, record: GroupRecord) -> str:
        if not isinstance(record, GroupMetadata):
            return type(record).__name__
        members = [
            f"{self._alias(member.member_id)}={member.assignment.decode() or 'nothing'}" for member in record.members
        ]
        return f"generation {record.generation} of {' '.join(members) or 'nobody'}"

    def _deliver(self, reply: Reply) -> None:
        super()._deliver(reply)
        who = self.askers.get(id(reply.token))
        if who is not None:
            self.events.append(self._answered(who, reply.response))

    def _answered(self, who: str, answer: object) -> str:
        if isinstance(answer, JoinGroupResponse):
            return f"{who}: {self._joined(who, answer)}"
        assert isinstance(answer, SyncGroupResponse)
        work = told(answer.error_code) if answer.error_code else f"gets {answer.assignment.decode() or 'nothing'}"
        return f"{who}: {work}"

    def _joined(self, who: str, answer: JoinGroupResponse) -> str:
        client = self.clients.get(who)
        if client is not None and answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            client.member_id, client.generation = answer.member_id, answer.generation_id
        if answer.error_code:
            return told(answer.error_code)
        others = " ".join(self._alias(member.member_id) for member in answer.members)
        role = f"leads {others}" if others else f"follows {self._alias(answer.leader)}"
        skip = ", assigns nothing" if answer.skip_assignment else ""
        return f"generation {answer.generation_id} by {answer.protocol_name}, {role}{skip}"

    def _alias(self, member_id: str) -> str:
        """a for the first member id of a, a' for its second, and so on."""
        if member_id not in self.aliases:
            name = member_id.split("-")[0]
            earlier = sum(alias.rstrip("'") == name for alias in self.aliases.values())
            self.aliases[member_id] = name + "'" * earlier
        return self.aliases[member_id]


def milliseconds(duration: str) -> int:
    amount, unit = re.fullmatch(r"(\d+)(ms|s|min)", duration).groups()  # type: ignore[union-attr]  # or the test fails
    return int(amount) * UNITS_MS[unit]


def offsets_of(arguments: Sequence[str]) -> dict[tuple[str, int], int]:
    """t0=5: offset 5 of partition 0 of topic t."""
    return {(at[0], int(at[1:])): int(offset) for at, offset in (argument.split("=") for argument in arguments)}


def told(*errors: int) -> str:
    return " ".join("ok" if error == ErrorCode.NONE else ErrorCode(error).name for error in errors)
