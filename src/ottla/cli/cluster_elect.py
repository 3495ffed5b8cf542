"""`ottla cluster elect`: who leads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from ottla.cli.cluster_view import ClusterView, granted
from ottla.cli.failures import CommandError
from ottla.cli.options import TOPIC_PARTITIONS, connected
from ottla.cli.output import confirm, note, print_fields, print_json
from ottla.cli.wire import ask, error_text
from ottla.errors import ErrorCode
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


@click.command
@click.argument("partitions", metavar="[TOPIC[:PARTITIONS]]…", type=TOPIC_PARTITIONS, nargs=-1)
@click.option("--unclean", is_flag=True, help="Any replica rather than none: records that only others had are lost.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def elect(
    partitions: Sequence[tuple[str, list[int] | None]], unclean: bool, yes: bool, bootstrap: str, as_json: bool
) -> None:
    """Give leadership back to the preferred replicas: of all partitions, or of those that are named.

    With --unclean: make some replica the leader of partitions that have none, although acknowledged records are lost.
    """
    view = ClusterView(bootstrap)
    if unclean:
        if not partitions:
            raise click.UsageError("--unclean loses records: name the partitions.")
        confirm("Make replicas leaders that may lack acknowledged records?", yes=yes)
    request = ElectLeadersRequest(
        election_type=UNCLEAN if unclean else PREFERRED,
        topic_partitions=_chosen(view, partitions) if partitions else None,
    )
    answer = granted(ask(bootstrap, request, ElectLeadersResponse))
    _report_elections(answer, as_json)


def _chosen(view: ClusterView, partitions: Sequence[tuple[str, list[int] | None]]) -> list[TopicPartitions]:
    known = {topic.name: [p.partition_index for p in topic.partitions] for topic in view.metadata.topics}
    return [
        TopicPartitions(topic=topic, partitions=known.get(topic, []) if chosen is None else chosen)
        for topic, chosen in partitions
    ]


def _report_elections(answer: ElectLeadersResponse, as_json: bool) -> None:
    outcomes = [
        (found.topic, result.partition_id, result.error_code, result.error_message)
        for found in answer.replica_election_results
        for result in found.partition_result
    ]
    counts = Counter(code for _, _, code, _ in outcomes)
    refused = [
        {"topic": topic, "partition": partition, "reason": error_text(code, message)}
        for topic, partition, code, message in outcomes
        if code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    ]
    told = {"elected": counts[ErrorCode.NONE], "not_needed": counts[ErrorCode.ELECTION_NOT_NEEDED]}
    if as_json:
        print_json({**told, "refused": refused})
    else:
        print_fields({"elected": told["elected"], "not needed": told["not_needed"], "refused": len(refused)})
        for one in refused:
            note(f"{one['topic']}-{one['partition']}: {one['reason']}")
    if refused:
        raise CommandError(f"{len(refused)} partitions have not got the leader that was asked for")
