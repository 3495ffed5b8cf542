"""The items that `make bench` measures, each runnable alone, in a short and in a normal form.

Short forms are for a machine that is quiet for half an hour only: fewer workloads and narrower windows, and one
repetition where a run takes a minute. `full` is the normal form with every combination of what a user sets.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from bench import flames, growth, headline, java_client, queues, rebalance, throughput
from bench.plan import Plan
from bench.servers import CLUSTERS, NAMES, PER_CORE
from bench.setting import Windows
from bench.workloads import BY_NAME, CLUSTER, FAILOVER

SHORT, NORMAL, FULL = "short", "normal", "full"
FORMS = (SHORT, NORMAL, FULL)
DURABLE = ("ottla", "kafka-durable")
_KAFKA_START_S, _KAFKA_CLUSTER_START_S, _OTTLA_START_S = 32.0, 75.0, 2.0
_FIRST_FILL_S_PER_GB, _FILL_S_PER_GB, _BETWEEN_S = 2.2, 0.2, 0.3
"""Memory that is kept warm is touched once; later what a run has taken is touched again, which takes a fifth as long a
gigabyte, and half of it is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    name: str
    title: str
    about: str
    plan: Callable[[str], Plan]


def _headline(form: str) -> Plan:
    if form == SHORT:
        windows = Windows(seconds=1, warmup_s=0.4)
        workloads = ("produce_50conn", "batches_100b")
        return Plan(workloads=workloads, systems=headline.SYSTEMS, windows=windows, repetitions=2, warm_gb=0.5)
    windows = Windows(seconds=1.5, warmup_s=0.5)
    return Plan(workloads=headline.NAMES, systems=headline.SYSTEMS, windows=windows, repetitions=9, warm_gb=2)


def _throughput(form: str) -> Plan:
    if form == SHORT:
        windows = Windows(seconds=1, warmup_s=0.4, data_scale=0.6)
        return Plan(workloads=throughput.SHORT, systems=NAMES, windows=windows, repetitions=3, warm_gb=1.5)
    windows = Windows(seconds=1.6, warmup_s=0.4, data_scale=0.6)
    plan = Plan(workloads=throughput.COVERING, systems=NAMES, windows=windows, repetitions=3, warm_gb=3)
    return replace(plan, workloads=[one.name for one in throughput.PRODUCT]) if form == FULL else plan


def _java(form: str) -> Plan:
    if form == SHORT:
        windows = Windows(seconds=1.5, warmup_s=3)
        systems = ("ottla", "kafka")
        return Plan(workloads=java_client.NAMES[:1], systems=systems, windows=windows, repetitions=1, warm_gb=1.5)
    windows = Windows(seconds=3, warmup_s=3)
    return Plan(workloads=java_client.NAMES, systems=NAMES, windows=windows, repetitions=3, warm_gb=3)


def _requests(form: str) -> Plan:
    windows = Windows(seconds=1 if form == SHORT else 4, warmup_s=0.4 if form == SHORT else 1)
    workloads = ("produce_1conn", "produce_50conn", "produce_100conn", "produce_200conn")
    return Plan(workloads=workloads, systems=NAMES, windows=windows, repetitions=3, warm_gb=0.3)


def _cores(form: str) -> Plan:
    systems = ("ottla", PER_CORE, "kafka")
    if form == SHORT:
        windows = Windows(seconds=1.2, warmup_s=0.4)
        return Plan(
            workloads=("produce_200conn", "batches_1kb"), systems=systems, windows=windows, repetitions=1, warm_gb=0.5
        )
    workloads = ("produce_50conn", "produce_100conn", "produce_200conn", "batches_1kb", "batches_100b")
    windows = Windows(seconds=2, warmup_s=0.5)
    return Plan(workloads=workloads, systems=systems, windows=windows, repetitions=3, warm_gb=2)


def _latency(form: str) -> Plan:
    windows = Windows(seconds=1.3 if form == SHORT else 6, warmup_s=0.5 if form == SHORT else 2)
    workloads = ("e2e_1k", "e2e_10k", "e2e_50k")
    return Plan(workloads=workloads, systems=NAMES, windows=windows, repetitions=3, warm_gb=0.5)


def _cluster(form: str) -> Plan:
    if form == SHORT:
        loads = ("default_1kb", "batches_1kb", "produce_1conn", "produce_200conn", "e2e_1k", "topics")
        windows = Windows(seconds=2, warmup_s=1, starts=1, idle_s=5)
        return Plan(
            workloads=(*loads, *FAILOVER, "memory"),
            systems=("ottla-3", "kafka-durable-3"),
            windows=windows,
            repetitions=1,
            warm_gb=1,
        )
    windows = Windows(seconds=4, warmup_s=2, starts=1, idle_s=10)
    return Plan(workloads=CLUSTER, systems=CLUSTERS, windows=windows, repetitions=3, warm_gb=3)


def _footprint(form: str) -> Plan:
    workloads = ("start", "topics", "memory_loaded", "with_1000_partitions", "with_10000_partitions", "recovery")
    if form == SHORT:
        windows = Windows(seconds=2, warmup_s=0.5, data_scale=1, starts=3, idle_s=5)
        return Plan(workloads=workloads, systems=DURABLE, windows=windows, repetitions=1, warm_gb=0.3)
    windows = Windows(seconds=4, warmup_s=1, data_scale=1, starts=3, idle_s=10)
    systems = ("ottla", "kafka-durable", "kafka")
    return Plan(workloads=workloads, systems=systems, windows=windows, repetitions=3, warm_gb=1)


def _growth(form: str) -> Plan:
    if form == SHORT:
        windows = Windows(seconds=1.2, warmup_s=0.4)
        return Plan(workloads=growth.SHORT, systems=DURABLE, windows=windows, repetitions=3, warm_gb=0.3)
    windows = Windows(seconds=2.5, warmup_s=1)
    return Plan(workloads=growth.NAMES, systems=NAMES, windows=windows, repetitions=3, warm_gb=2)


def _rebalance(form: str) -> Plan:
    windows = Windows(seconds=0, warmup_s=0)
    repetitions = 1 if form == SHORT else 3
    return Plan(workloads=rebalance.NAMES, systems=DURABLE, windows=windows, repetitions=repetitions, warm_gb=0)


def _queue(form: str) -> Plan:
    windows = Windows(seconds=0.7 if form == SHORT else 4, warmup_s=0)
    return Plan(workloads=tuple(queues.TITLES), systems=queues.SYSTEMS, windows=windows, repetitions=3, warm_gb=0.3)


def _flame(form: str) -> Plan:
    windows = Windows(seconds=6 if form == SHORT else 15, warmup_s=0)
    return Plan(workloads=tuple(flames.TITLES), systems=("ottla",), windows=windows, repetitions=1, warm_gb=0)


ITEMS = (
    Item(
        name="headline",
        title="The headline",
        about=(headline.__doc__ or "").split("\n\n")[1].replace("\n", " ").strip(),
        plan=_headline,
    ),
    Item(
        name="throughput",
        title="Throughput",
        about="Records through librdkafka, one producer or consumer. " + (throughput.__doc__ or "").split("\n\n")[1],
        plan=_throughput,
    ),
    Item(
        name="java",
        title="The Java client",
        about=(java_client.__doc__ or "").replace("\n\n", " ").replace("\n", " ").strip(),
        plan=_java,
    ),
    Item(
        name="requests",
        title="One record at a time",
        about="Each producer sends one record of 50 bytes and waits for its acknowledgement (acks=all, six partitions, "
        "plain sockets).",
        plan=_requests,
    ),
    Item(
        name="cores",
        title="A node for each core",
        about="A node is one process that serves in one thread, and a machine runs one for each of its cores. Here two "
        "nodes share the six partitions of a topic of one copy, beside one node and beside Kafka, whose broker has "
        "threads for all cores. CPU is that of both nodes. Plain sockets are as many as before; librdkafka keeps "
        "five requests in flight to each broker, which makes ten to two of them.",
        plan=_cores,
    ),
    Item(
        name="latency",
        title="End to end",
        about="1 KB records at a fixed rate through librdkafka and back into the same process, linger 0, acks=all. A "
        "record's time begins when it should have been sent, so that a stall counts for all that it delays.",
        plan=_latency,
    ),
    Item(
        name="cluster",
        title="Three nodes",
        about="Three brokers on this one machine beside the client; topics with three replicas of which two must be in "
        "sync, acks=all. CPU and memory are those of all three. Gaps are what a librdkafka producer with default "
        "settings sees: the longest time without an acknowledgement, in the partitions that the lost node led and in "
        "the others.",
        plan=_cluster,
    ),
    Item(
        name="footprint",
        title="Start, memory, restart",
        about="Start is from the start of the process to the first Metadata answer; back is when records are "
        "acknowledged again all over the topic.",
        plan=_footprint,
    ),
    Item(
        name="growth",
        title="How cost grows",
        about="Broker CPU per one-record request from plain sockets (200 connections where partitions vary, six "
        "partitions where connections vary), and per megabyte as batches grow. One node against three is taken from "
        "the items above.",
        plan=_growth,
    ),
    Item(
        name="rebalance",
        title="Group rebalances",
        about=(rebalance.__doc__ or "").split("\n\n")[1],
        plan=_rebalance,
    ),
    Item(
        name="queue",
        title="The embedded queue",
        about="100-byte messages into a queue in a directory, on disk when the call returns. CPU is that of all "
        "processes together.",
        plan=_queue,
    ),
    Item(
        name="flame",
        title="Where the CPU goes",
        about="Flame graphs of the broker by py-spy with native frames; download one and open it to zoom and search.",
        plan=_flame,
    ),
)
ITEM = {item.name: item for item in ITEMS}
"""In the order of the page."""
_IN_TURN = (
    "headline",
    "cores",
    "java",
    "throughput",
    "requests",
    "latency",
    "footprint",
    "growth",
    "rebalance",
    "flame",
    "cluster",
    "queue",
)


def in_turn(items: Iterable[Item]) -> list[Item]:
    """In an order in which servers that are up can be used by the next item."""
    return sorted(items, key=lambda item: _IN_TURN.index(item.name))


def estimate_s(plan: Plan, *, running: Sequence[str] = ()) -> float:
    """More or less how long a plan takes where these systems are up already."""
    starts_s = sum(_start_s(system) for system in plan.systems if system not in running)
    windows = plan.windows
    each_s = windows.seconds + windows.warmup_s + plan.warm_gb * _FILL_S_PER_GB + _BETWEEN_S
    runs_s = sum(each_s + _extra_s(name, plan) for name in plan.workloads)
    return starts_s + plan.warm_gb * _FIRST_FILL_S_PER_GB + runs_s * len(plan.systems) * plan.repetitions


def _start_s(system: str) -> float:
    if system.startswith("kafka"):
        return _KAFKA_CLUSTER_START_S if system.endswith("-3") else _KAFKA_START_S
    return _OTTLA_START_S if system in (*NAMES, PER_CORE, *CLUSTERS) else 0.0


def _extra_s(name: str, plan: Plan) -> float:
    if name in BY_NAME:
        return BY_NAME[name].extra_s
    return 4.0 if name in flames.TITLES else 1.5


def title_of(workload: str) -> str:
    for titles in (queues.TITLES, flames.TITLES):
        if workload in titles:
            return titles[workload]
    return BY_NAME[workload].title if workload in BY_NAME else workload
