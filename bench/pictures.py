"""Which pictures each item of the page has."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import growth, queues, rebalance
from bench.flames import TITLES as FLAMES
from bench.items import title_of
from bench.native import Measured
from bench.plots import Summary, bars, cpu_per_mb, figure, lines, logarithmic, picture, ratios
from bench.ratios import ratio

Items = Mapping[str, Summary]
Picture = tuple[str, str]
"""File name, and what it shows."""

_PERCENTILES = {"p50": "p50_ms", "p95": "p95_ms", "p99": "p99_ms", "p99.9": "p999_ms"}


def draw(item: str, items: Items, directory: Path) -> list[Picture]:
    """Draws the pictures of an item; returns those that there was something for."""
    return _DRAWN[item](items, directory) if item in items else []


def _there(summary: Summary, names: list[str]) -> list[str]:
    return [name for name in names if name in summary]


def _throughput(items: Items, directory: Path) -> list[Picture]:
    summary = items["throughput"]
    drawn = []
    for kind, title in (("produce", "Written"), ("consume", "Read")):
        names = [name for name in summary if ("consume" in name) is (kind == "consume")]
        if names and len(names) <= 20:
            path = directory / f"throughput-{kind}.svg"
            with picture(path, width=8, height=0.9 + 0.52 * len(names)) as [axes]:
                bars(axes, summary, names, figure("mb_per_s"))
                axes.set_xlabel("MB/s")
            drawn.append((path.name, f"{title}, in MB/s"))
    return drawn


def _java(items: Items, directory: Path) -> list[Picture]:
    summary = items["java"]
    path = directory / "java.svg"
    with picture(path, width=8, height=0.9 + 0.52 * len(summary)) as [axes]:
        bars(axes, summary, list(summary), figure("mb_per_s"))
        axes.set_xlabel("MB/s")
    return [(path.name, "Written by Java's client, in MB/s")]


def _requests(items: Items, directory: Path) -> list[Picture]:
    summary = items["requests"]
    points = {float(name.removeprefix("produce_").removesuffix("conn")): name for name in summary}
    path = directory / "requests.svg"
    with picture(path, width=8, height=3, panels=3) as panels:
        for axes, name, title in zip(
            panels,
            ("rate", "p99_ms", "broker_cpu_us"),
            ("requests per second", "p99, ms", "broker CPU per request, µs"),
            strict=True,
        ):
            lines(axes, summary, points, figure(name))
            axes.set_title(title)
            axes.set_xlabel("producers")
            logarithmic(axes, "y")
    return [(path.name, "One record at a time: rate, p99 and CPU")]


def _cores(items: Items, directory: Path) -> list[Picture]:
    summary = items["cores"]
    path = directory / "cores.svg"
    with picture(path, width=8, height=3, panels=2) as panels:
        for axes, beginning, unit in zip(panels, ("produce", "batches"), ("rate", "mb_per_s"), strict=True):
            names = [name for name in summary if name.startswith(beginning)]
            bars(axes, summary, names, figure(unit))
            axes.set_xlabel("requests per second" if unit == "rate" else "MB/s")
    return [(path.name, "One node, two nodes, and Kafka in the page cache")]


def _latency(items: Items, directory: Path) -> list[Picture]:
    summary = items["latency"]
    path = directory / "latency.svg"
    with picture(path, width=8, height=3, panels=len(summary)) as panels:
        for axes, (workload, systems) in zip(panels, summary.items(), strict=True):
            by_percentile = {
                name: {system: _only(figures, name) for system, figures in systems.items()}
                for name in _PERCENTILES.values()
            }
            lines(axes, by_percentile, dict(enumerate(_PERCENTILES.values())), lambda figures: figures.get("ms"))
            axes.set_xticks(range(len(_PERCENTILES)), list(_PERCENTILES))
            logarithmic(axes, "y")
            axes.set_title(f"{workload.removeprefix('e2e_').replace('k', ',000')}/s")
        panels[0].set_ylabel("ms")
    return [(path.name, "Latency from the intended send time, in ms")]


def _only(figures: Measured, name: str) -> Measured:
    return {"ms": figures[name]} if name in figures else {}


def _cluster(items: Items, directory: Path) -> list[Picture]:
    summary = items["cluster"]
    drawn = []
    loads = _there(summary, ["default_1kb", "batches_1kb", "produce_200conn", "produce_1conn"])
    if loads:
        path = directory / "cluster-cpu.svg"
        with picture(path, width=8, height=0.9 + 0.5 * len(loads)) as [axes]:
            bars(axes, summary, loads, figure("broker_cpu_us"))
            logarithmic(axes, "x")
            axes.set_xlabel("CPU of all brokers per message, µs")
        drawn.append((path.name, "Three nodes: CPU per message"))
    gaps = _there(summary, ["kill", "kill_controller", "clean_stop"])
    if gaps:
        path = directory / "cluster-gaps.svg"
        with picture(path, width=8, height=0.9 + 0.5 * len(gaps), panels=2) as panels:
            labels = {"kill": "kill -9", "kill_controller": "kill -9, controller", "clean_stop": "clean stop"}
            for axes, name, title in zip(
                panels, ("gap_led_s", "gap_others_s"), ("partitions it led", "others"), strict=True
            ):
                bars(axes, summary, gaps, figure(name), labels=[labels[gap] for gap in gaps])
                axes.set_xlabel("longest gap, s")
                axes.set_title(title)
        drawn.append((path.name, "Three nodes: how long writers stand still"))
    return drawn


_FOOTPRINT: tuple[tuple[str, str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "memory",
        "MB",
        (
            ("idle", "start", "idle_rss_mb"),
            ("under load", "memory_loaded", "broker_rss_mb"),
            ("1,000 partitions", "with_1000_partitions", "partitions_rss_mb"),
            ("10,000 partitions", "with_10000_partitions", "partitions_rss_mb"),
        ),
    ),
    (
        "time to start",
        "s",
        (
            ("empty", "start", "start_s"),
            ("10,000 partitions", "with_10000_partitions", "restart_s"),
            ("the same, kill -9", "with_10000_partitions", "restart_killed_s"),
            ("much data, kill -9", "recovery", "recovery_s"),
        ),
    ),
)


def _footprint(items: Items, directory: Path) -> list[Picture]:
    path = directory / "footprint.svg"
    with picture(path, width=8, height=3, panels=2) as panels:
        for axes, (title, unit, rows) in zip(panels, _FOOTPRINT, strict=True):
            flat = _flattened(items["footprint"], rows)
            bars(axes, flat, list(flat), lambda one: one.get("value"), labels=list(flat))
            logarithmic(axes, "x")
            axes.set_xlabel(unit)
            axes.set_title(title)
    return [(path.name, "Memory, and time to start")]


def _flattened(summary: Summary, rows: Sequence[tuple[str, str, str]]) -> Summary:
    """label → system → value: figures of several workloads in one picture."""
    flat: dict[str, dict[str, Measured]] = {}
    for label, workload, name in rows:
        for system, figures in summary.get(workload, {}).items():
            if name in figures:
                flat.setdefault(label, {})[system] = {"value": figures[name]}
    return flat


def _growth(items: Items, directory: Path) -> list[Picture]:
    summary = items["growth"]
    drawn = []
    per_request = ("broker CPU per request, µs", figure("broker_cpu_us"))
    for name, places, label, (unit, value) in (
        ("partitions", growth.PARTITIONS, "partitions", per_request),
        ("connections", growth.CONNECTIONS, "connections", per_request),
        ("batch", growth.BATCH_RECORDS, "size of a batch, KB", ("broker CPU per MB, ms", cpu_per_mb)),
    ):
        points = {float(place): f"growth_{name}_{place}" for place in places}
        path = directory / f"growth-{name}.svg"
        with picture(path, width=6, height=3.4) as [axes]:
            lines(axes, summary, points, value)
            logarithmic(axes, "x", "y")
            axes.set_xlabel(label)
            axes.set_ylabel(unit)
        drawn.append((path.name, f"{unit} over {label}"))
    return [*drawn, *_brokers(items, directory)]


_BROKER_ROWS = {"produce_200conn": "requests", "batches_1kb": "throughput", "default_1kb": "throughput"}


def _brokers(items: Items, directory: Path) -> list[Picture]:
    """One node from one item beside three from another."""
    both: dict[str, dict[str, Measured]] = {}
    for workload, item in _BROKER_ROWS.items():
        one, three = items.get(item, {}).get(workload, {}), items.get("cluster", {}).get(workload, {})
        for system in ("ottla", "kafka-durable", "kafka"):
            if "broker_cpu_us" in one.get(system, {}) and "broker_cpu_us" in three.get(f"{system}-3", {}):
                ratio = three[f"{system}-3"]["broker_cpu_us"] / one[system]["broker_cpu_us"]
                both.setdefault(workload, {})[system] = {"growth": ratio}
    if not both:
        return []
    path = directory / "growth-brokers.svg"
    with picture(path, width=6, height=0.9 + 0.5 * len(both)) as [axes]:
        bars(axes, both, list(both), figure("growth"))
        axes.set_xlabel("CPU per message on three nodes / on one")
    return [(path.name, "CPU per message, brokers 1 → 3")]


def _rebalance(items: Items, directory: Path) -> list[Picture]:
    summary = items["rebalance"]
    points = {float(size): f"rebalance_{size}" for size in rebalance.SIZES}
    path = directory / "rebalance.svg"
    with picture(path, width=8, height=2.8, panels=4) as panels:
        for axes, (name, title) in zip(
            panels,
            {
                "join_s": "one more joins, s",
                "leave_s": "one leaves, s",
                "crash_beyond_session_s": "one dies, s beyond\nits session",
                "join_cpu_ms": "broker CPU\nof a join, ms",
            }.items(),
            strict=True,
        ):
            lines(axes, summary, points, figure(name))
            axes.set_title(title)
            logarithmic(axes, "x")
            axes.set_xlabel("members")
            axes.set_ylim(bottom=0)
    return [(path.name, "Time until every partition has an owner again")]


def _queue(items: Items, directory: Path) -> list[Picture]:
    summary = items["queue"]
    names = _there(summary, list(queues.TITLES))
    path = directory / "queue.svg"
    with picture(path, width=8, height=0.9 + 0.45 * len(names)) as [axes]:
        bars(axes, summary, names, figure("rate"))
        logarithmic(axes, "x")
        axes.set_xlabel("messages per second")
    return [(path.name, "The embedded queue beside SQLite and persist-queue")]


def _flame(items: Items, directory: Path) -> list[Picture]:
    names = [(f"{name.replace('_', '-')}.svg", title) for name, title in FLAMES.items() if name in items["flame"]]
    return [(name, title) for name, title in names if (directory / name).exists()]


def _headline(items: Items, directory: Path) -> list[Picture]:
    summary = items["headline"]
    found = {name: ratio(of.get("ottla", {}), of.get("kafka", {}), "rate") for name, of in summary.items()}
    rows = {title_of(name): of for name, of in found.items() if of is not None}
    path = directory / "headline.svg"
    with picture(path, width=8, height=0.9 + 0.32 * len(rows)) as [axes]:
        ratios(axes, rows)
        axes.set_xlabel("times Kafka's rate: the middle, and the quarters around it")
    return [(path.name, "Durable Ottla's rate as a multiple of that of Kafka's page cache")]


_DRAWN: dict[str, Callable[[Items, Path], list[Picture]]] = {
    "headline": _headline,
    "throughput": _throughput,
    "java": _java,
    "requests": _requests,
    "cores": _cores,
    "latency": _latency,
    "cluster": _cluster,
    "footprint": _footprint,
    "growth": _growth,
    "rebalance": _rebalance,
    "queue": _queue,
    "flame": _flame,
}
