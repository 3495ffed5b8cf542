"""`ottla txn`: transactions that are open, and those that nobody will end."""

from __future__ import annotations

import time

import click

from ottla.cli.failures import CommandError
from ottla.cli.options import DURATION, connected, now_ms
from ottla.cli.output import confirm, print_changes, print_fields, print_json, print_table
from ottla.cli.txn_view import OPEN_STATES, OpenInPartition, TransactionView
from ottla.cli.wire import ask, error_text
from ottla.errors import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.types import TopicPartition

ANY_DURATION = -1
ABORT_WITHIN_S = 30.0
ASK_AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


@click.group
def command() -> None:
    """Transactions: what is open, who has it open, and how to end it.

    A transaction hangs if a partition holds records of it and no coordinator knows of it: readers of committed records
    wait at it for ever. `list --hanging` finds those, `abort --partition` ends them.
    """


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="NAME", help="Only those in this state, such as Ongoing.")
@click.option("--open", "only_open", is_flag=True, help="Only those that are not complete.")
@click.option("--longer-than", type=DURATION, metavar="TIME", help="Only those that began this long ago.")
@click.option("--hanging", is_flag=True, help="Partitions with transactions that no coordinator knows.")
@connected
def list_transactions(
    bootstrap: str, as_json: bool, states: tuple[str, ...], only_open: bool, longer_than: int | None, hanging: bool
) -> None:
    """List transactional ids and their transactions."""
    view = TransactionView(bootstrap)
    if hanging:
        _print_hanging(view.hanging(), as_json)
        return
    wanted = OPEN_STATES if only_open else states
    listed = view.listed(wanted, ANY_DURATION if longer_than is None else longer_than)
    rows = [(found.transactional_id, found.transaction_state, found.producer_id, node_id) for node_id, found in listed]
    columns = ("transactional_id", "state", "producer_id", "coordinator")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows, empty="No transactions.")


def _print_hanging(found: list[OpenInPartition], as_json: bool) -> None:
    columns = ("topic", "partition", "producer_id", "producer_epoch", "start_offset", "last_written")
    rows = [
        (
            *one.at,
            one.producer.producer_id,
            one.producer.producer_epoch,
            one.producer.current_txn_start_offset,
            _ago(one.producer.last_timestamp),
        )
        for one in found
    ]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows, empty="No transaction hangs.")


@command.command("describe")
@click.argument("transactional_id")
@connected
def describe_transaction(bootstrap: str, as_json: bool, transactional_id: str) -> None:
    """Show what the coordinator of a transactional id knows."""
    node_id, state = TransactionView(bootstrap).described(transactional_id)
    fields: dict[str, object] = {
        "transactional_id": transactional_id,
        "state": state.transaction_state,
        "coordinator": node_id,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "timeout_ms": state.transaction_timeout_ms,
        "began": _ago(state.transaction_start_time_ms),
        "partitions": [f"{topic.topic}:{index}" for topic in state.topics for index in topic.partitions],
    }
    if as_json:
        print_json(fields)
    else:
        print_fields({name: ", ".join(value) if isinstance(value, list) else value for name, value in fields.items()})


@command.command("abort")
@click.argument("transactional_id", required=False)
@click.option("--partition", metavar="TOPIC:N", help="End what hangs in this partition.")
@click.option("--start-offset", type=int, metavar="OFFSET", help="Where it begins there, as `list --hanging` says.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def abort_transaction(
    bootstrap: str,
    as_json: bool,
    transactional_id: str | None,
    partition: str | None,
    start_offset: int | None,
    yes: bool,
) -> None:
    """Abort the open transaction of a transactional id, whose producer is fenced by that; or one that hangs.

    With --partition a marker is written into that one partition. Do so only to what `list --hanging` names: a
    transaction that a coordinator knows of would be torn apart.
    """
    if (transactional_id is None) == (partition is None):
        raise click.UsageError("Give a transactional id, or --partition.")
    view = TransactionView(bootstrap)
    if transactional_id is not None:
        confirm(f"Abort what {transactional_id} has open, and fence its producer?", yes=yes)
        print_changes({"aborted": transactional_id, "producer_epoch": _fence(view, transactional_id)}, as_json)
        return
    found = _hanging_at(view, _place(partition or ""), start_offset)
    confirm(f"Abort the transaction of producer {found.producer.producer_id} in {found.at}?", yes=yes)
    _write_marker(found)
    print_changes({"aborted": str(found.at), "start_offset": found.producer.current_txn_start_offset}, as_json)


def _fence(view: TransactionView, transactional_id: str) -> int:
    """A start of a producer aborts what is open. Returns the epoch that nobody else has now."""
    view.described(transactional_id)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    deadline = time.monotonic() + ABORT_WITHIN_S
    while True:
        _, address = view.coordinator_of(transactional_id)
        answer = ask(address, request, InitProducerIdResponse)
        if not answer.error_code:
            return answer.producer_epoch
        if answer.error_code not in ASK_AGAIN or time.monotonic() > deadline:
            raise CommandError(f"{transactional_id} was not aborted: {error_text(answer.error_code, None)}")


def _place(text: str) -> TopicPartition:
    topic, found, index = text.rpartition(":")
    if not found or not topic or not index.isdigit():
        raise click.UsageError(f"--partition {text!r} is not TOPIC:N")
    return TopicPartition(topic, int(index))


def _hanging_at(view: TransactionView, at: TopicPartition, start_offset: int | None) -> OpenInPartition:
    found = [
        one
        for one in view.open_in_partitions(at)
        if start_offset is None or one.producer.current_txn_start_offset == start_offset
    ]
    if not found:
        raise CommandError(f"No transaction is open in {at}", hint="`ottla txn list --hanging` shows those that hang.")
    if len(found) > 1:
        offsets = ", ".join(str(one.producer.current_txn_start_offset) for one in found)
        raise CommandError(f"Several transactions are open in {at}", hint=f"Name one with --start-offset: {offsets}.")
    return found[0]


def _write_marker(found: OpenInPartition) -> None:
    marker = WritableTxnMarker(
        producer_id=found.producer.producer_id,
        producer_epoch=found.producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=found.at.topic, partition_indexes=[found.at.partition])],
        coordinator_epoch=max(found.producer.coordinator_epoch, 0),
    )
    answer = ask(found.leader, WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
    code = answer.markers[0].topics[0].partitions[0].error_code
    if code:
        raise CommandError(f"The marker was not written to {found.at}: {error_text(code, None)}")


def _ago(moment_ms: int) -> str | None:
    return None if moment_ms < 0 else f"{max(0, now_ms() - moment_ms) // 1_000}s ago"
