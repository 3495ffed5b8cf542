"""Transactions as transcripts: tests/scenarios/transactions.

    a starts [2pc] [keep] [again]      InitProducerId; `again`: it says who it is (KIP-360)
    a adds t0 t1 | a commits | a aborts            in version 2, or with a trailing v1 in version 1
    markers are written | coordinator moves | 3s pass

A client is an instance with the transactional id; all have the same one. What happened is what was written, who
was told what, and which markers are to be written; then the id's state, who its producer is, and who wrote in its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.replicated import Result
from ottla.transactions.shard import NEEDS_PRODUCER_ID
from ottla.transactions.transaction import NO_PRODUCER, IdForgotten, Producer, Transaction, TransactionRecord
from ottla.types import TopicPartition
from tests.scenarios import check_scenario, scenario_files
from tests.ticket import Ticket
from tests.transactions.harness import FIRST_PRODUCER_ID, Host

UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000}


@pytest.mark.parametrize("path", scenario_files("transactions"), ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    check_scenario(path, Stage().run, request)


class Stage(Host):
    """Runs commands, and tells what comes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Producer] = {}
        self.askers: dict[int, str] = {}
        self.events: list[str] = []

    def run(self, command: str) -> str:
        self.events = []
        self._dispatch(command.split())
        known = self.shard._transactions.get("x")
        return f"{'; '.join(self.events) or 'nothing'} [{_state(known)}]"

    def _dispatch(self, words: list[str]) -> None:
        match words:
            case [duration, "pass"]:
                self.after(milliseconds(duration))
            case ["markers", "are", "written"]:
                self.write_markers()
            case ["coordinator", "moves"]:
                self.fail_over()
                self.events += [f"markers: {_marked(markers)}" for markers in self.to_write]
            case [name, verb, *arguments]:
                self._act(name, verb, arguments)

    def _act(self, name: str, verb: str, arguments: Sequence[str]) -> None:
        client = self.clients.get(name, NO_PRODUCER)
        version = 0 if "v1" in arguments else 2
        if verb == "starts":
            fields: dict[str, Any] = {"enable2_pc": "2pc" in arguments, "keep_prepared_txn": "keep" in arguments}
            if "again" in arguments:
                fields |= {"producer_id": client.producer_id, "producer_epoch": client.epoch}
            ticket = self.ask_init(**fields)
        elif verb == "adds":
            wanted = [TopicPartition(word[0], int(word[1:])) for word in arguments if word != "v1"]
            ticket = self.ask_add(client, *wanted, version=version)
        else:
            ticket = self.ask_end(client, verb == "commits", version)
        self.askers[id(ticket)] = name
        if ticket.waits:
            self.events.append(f"{name} waits")
        else:
            self._answered(name, ticket.answer)

    def _carry_out(self, result: Result[Any, Any], ticket: Ticket | None) -> None:
        before = len(self.to_write)
        super()._carry_out(result, ticket)
        self.events += [f"log: {_written(record)}" for record in result.records]
        self.events += [f"markers: {_marked(markers)}" for markers in self.to_write[before:]]
        for reply in result.replies:
            if reply.response is not NEEDS_PRODUCER_ID:
                self._answered(self.askers[id(reply.token)], reply.response)

    def _answered(self, name: str, answer: Any) -> None:
        if isinstance(answer, ErrorCode):
            self.events.append(f"{name}: {_code(answer)}")
            return
        assert isinstance(answer, InitProducerIdResponse | EndTxnResponse)
        if answer.error_code:
            self.events.append(f"{name}: {_code(answer.error_code)}")
            return
        self.clients[name] = Producer(answer.producer_id, answer.producer_epoch)
        self.events.append(f"{name}: is {_who(self.clients[name])}{_kept(answer)}")


def milliseconds(duration: str) -> int:
    found = re.fullmatch(r"(\d+)(ms|s|min)", duration)
    assert found, duration
    return int(found[1]) * UNITS_MS[found[2]]


def _who(producer: Producer) -> str:
    """The first producer id is 0 here, for short."""
    return f"{producer.producer_id - FIRST_PRODUCER_ID}/{producer.epoch}"


def _kept(answer: InitProducerIdResponse | EndTxnResponse) -> str:
    if isinstance(answer, EndTxnResponse) or answer.ongoing_txn_producer_id < 0:
        return ""
    return f", keeps what {_who(Producer(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch))} wrote"


def _code(code: int) -> str:
    return "ok" if not code else ErrorCode(code).name


def _written(record: TransactionRecord) -> str:
    return "forgotten" if isinstance(record, IdForgotten) else record.state.label


def _marked(markers: Any) -> str:
    where = " ".join(f"{at.topic}{at.partition}" for at in sorted(markers.partitions)) or "nowhere"
    return f"{'commit' if markers.commits else 'abort'} {_who(markers.producer)} in {where}"


def _state(known: Transaction | None) -> str:
    if known is None:
        return "unknown"
    writer = Producer(known.producer_id, known.producer_epoch)
    written_by = f", written by {_who(writer)}" if known.client != writer else ""
    return f"{known.state.label} {_who(known.client)}{written_by}"
