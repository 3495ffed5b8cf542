"""Raft as transcripts: tests/scenarios/raft.

    cluster 1 2 3 [observers 4 5] [singly]         singly: one entry in a message
    2 times out | 1 ticks 3                        time passes, and nothing is delivered
    deliver [to 2]                                 what is in flight, and not what comes of it
    settle                                         deliver until all is said, and tell only what has changed
    10 ticks pass                                  of time, and all is delivered
    1 proposes a b | 1 reads | 1 adds 4 | 1 removes 3 | 1 hands over [to 2] | 1 snapshots [keeping 2]
    cut 1 | heal | lose | 1 crashes | 1 restarts | logs

Entries are written index.term, and votes say which term they are for (t3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.errors import BrokerError
from ottla.raft.entry import Entry, EntryId, EntryKind
from ottla.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Attach,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    Message,
    Outgoing,
    ReadReply,
    ReadRequest,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from ottla.raft.node import RaftNode
from ottla.raft.ready import Leadership, RoleName
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import Voter, VoterSet
from tests.raft.host import Host
from tests.raft.net import SETTINGS, Net
from tests.scenarios import check_scenario, scenario_files


@pytest.mark.parametrize("path", scenario_files("raft"), ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check_scenario(path, Stage().run, request)


class Stage:
    """Runs commands, and tells what comes of them."""

    def __init__(self) -> None:
        self.net = Net([])
        self.events: list[str] = []
        self.is_brief = False
        self.seen: dict[int, tuple[Leadership, int, int]] = {}

    def run(self, command: str) -> str:
        self.events = []
        words = command.split()
        self.is_brief = words[0] == "settle" or words[-1] == "pass"
        try:
            self._dispatch(words)
        except BrokerError as error:
            self.events.append(f"refused: {error.code.name}")
        self._tell_changes()
        return "; ".join(self.events) or "nothing"

    def _dispatch(self, words: Sequence[str]) -> None:
        match words:
            case ["cluster", *members, "singly"]:
                self._found(*roles_of(members), replace(SETTINGS, message_bytes_max=1))
            case ["cluster", *members]:
                self._found(*roles_of(members), SETTINGS)
            case ["settle"]:
                self.net.settle()
            case [ticks, "ticks", "pass"]:
                self.net.pass_time(int(ticks))
            case ["deliver"]:
                self.net.deliver()
            case ["deliver", "to", node]:
                self.net.deliver(int(node))
            case ["cut", *nodes]:
                self.net.cut_off |= {int(node) for node in nodes}
            case ["heal"]:
                self.net.cut_off = set()
            case ["lose"]:
                self.net.lose()
            case ["logs"]:
                self.events += [f"{node}: {log_text(host)}" for node, host in self.net.hosts.items()]
            case [node, *doing]:
                self._act(int(node), doing)

    def _found(self, voters: Sequence[int], observers: Sequence[int], settings: RaftSettings) -> None:
        self.net = Net(voters, observers=observers, settings=settings)
        self.net.on_send = self._sent
        for node_id in observers:
            self.net[node_id].node.set_contacts(voters)
        self._remember()

    def _act(self, node_id: int, doing: Sequence[str]) -> None:
        net = self.net
        match doing:
            case ["times", "out"]:
                net.time_out(node_id)
            case ["ticks", count]:
                net.tick(node_id, count=int(count))
            case ["crashes"]:
                net.crash(node_id)
            case ["restarts"]:
                net.restart(node_id)
            case ["snapshots", *keeping]:
                net.take_snapshot(node_id, keep_entries=int(keeping[-1]) if keeping else 0)
            case _:
                self._ask(net[node_id].node, doing)
                net.carry_out(node_id)

    @staticmethod
    def _ask(node: RaftNode, doing: Sequence[str]) -> None:
        match doing:
            case ["proposes", *data]:
                node.propose([each.encode() for each in data])
            case ["reads"]:
                node.read()
            case ["adds", other]:
                node.add_voter(Voter(int(other)))
            case ["removes", other]:
                node.remove_voter(int(other))
            case ["hands", "over"]:
                node.transfer_leadership()
            case ["hands", "over", "to", other]:
                node.transfer_leadership(int(other))

    # Telling

    def _sent(self, outgoing: Outgoing) -> None:
        if not self.is_brief:
            self.events.append(f"{outgoing.message.sender}>{outgoing.to} {message_text(outgoing.message)}")

    def _remember(self) -> None:
        self.seen = {node: seen_of(host) for node, host in self.net.hosts.items()}

    def _tell_changes(self) -> None:
        for node, host in self.net.hosts.items():
            before, now = self.seen.get(node), seen_of(host)
            if before is not None and before != now:
                self.events += changes_text(node, before, now)
            self.events += [f"{node} may read {read.index or 'nothing, ask again'}" for read in host.reads]
            host.reads.clear()
        self._remember()


def roles_of(members: Sequence[str]) -> tuple[list[int], list[int]]:
    """Voters and observers."""
    split = members.index("observers") if "observers" in members else len(members)
    return [int(word) for word in members[:split]], [int(word) for word in members[split + 1 :]]


def seen_of(host: Host) -> tuple[Leadership, int, int]:
    return host.node.leadership, host.applied, host.disk.snapshot.last.index


def changes_text(node: int, before: tuple[Leadership, int, int], now: tuple[Leadership, int, int]) -> list[str]:
    told = []
    if before[0] != now[0]:
        told.append(f"{node} {leadership_text(now[0])}")
    if now[2] > before[2]:
        told.append(f"{node} has snapshot {now[2]}")
    if now[1] > max(before[1], now[2]) or now[1] < before[1]:
        told.append(f"{node} applied {now[1]}")
    return told


def leadership_text(leadership: Leadership) -> str:
    kind = "" if leadership.is_voter else " as observer"
    match leadership.role:
        case RoleName.LEADER:
            return f"leads t{leadership.term}{kind}"
        case RoleName.FOLLOWER:
            whom = f"follows {leadership.leader_id}" if leadership.leader_id is not None else "waits"
            return f"{whom} t{leadership.term}{kind}"
        case role:
            return f"is {role.value} t{leadership.term}"


def id_text(at: EntryId) -> str:
    return f"{at.index}.{at.term}"


def entry_text(entry: Entry) -> str:
    match entry.kind:
        case EntryKind.DATA:
            content = entry.data.decode()
        case EntryKind.NOOP:
            content = "noop"
        case EntryKind.VOTERS:
            content = "voters:" + ",".join(map(str, VoterSet.decode(entry.data).ids))
    return f"{entry.index}.{entry.term}={content}"


def log_text(host: Host) -> str:
    start = f"snapshot {id_text(host.disk.snapshot.last)} " if host.disk.snapshot.last.index else ""
    entries = " ".join(entry_text(entry) for entry in host.disk.entries)
    return f"{start}{entries or '-'} committed {host.node.commit}"


def message_text(message: Message) -> str:
    match message:
        case VoteRequest():
            name = "pre-vote" if message.pre_vote else "vote"
            by_transfer = " by transfer" if message.by_transfer else ""
            return f"{name} t{message.term}? last {id_text(message.last)}{by_transfer}"
        case VoteReply():
            return f"{'pre-vote' if message.pre_vote else 'vote'} t{message.term} {'yes' if message.granted else 'no'}"
        case Append():
            entries = " ".join(entry_text(entry) for entry in message.entries) or "nothing"
            return f"append {entries} after {id_text(message.previous)} commit {message.commit}"
        case AppendReply():
            return f"has {message.match_index}"
        case AppendRejected():
            return f"has no {message.rejected_index}, try {id_text(message.hint)}"
        case Heartbeat():
            return f"heartbeat {message.round} commit {id_text(message.commit)}"
        case HeartbeatReply():
            return f"heard {message.round} t{message.term}"
        case InstallSnapshot():
            return f"snapshot {id_text(message.snapshot.last)}"
        case TimeoutNow():
            return "take over"
        case Attach():
            return "attach"
        case ReadRequest():
            return "read?"
        case ReadReply():
            return f"read {message.index}"
        case _:
            raise AssertionError(message)
