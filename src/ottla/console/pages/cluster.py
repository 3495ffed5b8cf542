"""The cluster: how it is, and a map of its racks, brokers and replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ottla.console.charts import sparkline
from ottla.console.frame import Page
from ottla.console.markup import Child, Html, badge, figure, figures, join, link, notice, path, tag
from ottla.console.site import Site
from ottla.console.snapshot import BrokerNow, ClusterNow, PartitionNow
from ottla.console.text import count, plural, rate, size
from ottla.console.watching import Moment

CELLS_MAX = 6_000
"""Replicas that have a cell of their own, shared out among the brokers: each takes some microseconds to draw."""
IN_SERVICE = "in service"
FREE_SHARE = 0.2
"""Of a disk that has less than this left, it is said."""


def show(site: Site) -> None:
    Page(site, "Cluster", "Cluster").watch(site.cluster.shared, render)


def render(moment: Moment) -> Html:
    now = moment.now
    return join([_summary(moment), _troubles(now), _map(moment), _key()])


def _summary(moment: Moment) -> Html:
    now = moment.now
    partitions = list(now.partitions())
    down = sum(broker.state == "fenced" for broker in now.brokers)
    under = sum(each.is_under_replicated for each in partitions)
    offline = sum(each.leader is None for each in partitions)
    held = [broker.held_bytes for broker in now.brokers if broker.held_bytes is not None]
    written = None if moment.rates.total is None else sparkline(moment.past, "Records written per second")
    return figures(
        figure("Brokers", count(len(now.brokers)), f"{down} down" if down else "all in service", "bad" if down else ""),
        figure("Topics", count(sum(not topic.is_internal for topic in now.topics)), _internal(now)),
        figure(
            "Partitions",
            count(len(partitions)),
            f"{_leaderless(now)} without preferred leader" if _leaderless(now) else None,
        ),
        figure("Under-replicated", count(under), None, "warn" if under else ""),
        figure("Without leader", count(offline), None, "bad" if offline else ""),
        figure("Written", rate(moment.rates.total), written),
        figure("On disk", size(sum(held)) if held else size(None), "copies included"),
    )


def _internal(now: ClusterNow) -> str:
    return f"and {sum(topic.is_internal for topic in now.topics)} internal"


def _leaderless(now: ClusterNow) -> int:
    return sum(not each.preferred_leads for each in now.partitions() if each.leader is not None)


def _troubles(now: ClusterNow) -> Html:
    lines = []
    if now.controller is None:
        lines.append(notice("The cluster has no controller at the moment: nothing can be created or moved.", "bad"))
    offline = [each for each in now.partitions() if each.leader is None]
    if offline:
        lines.append(notice(join(["No leader: ", _named(offline)]), "bad"))
    under = [each for each in now.partitions() if each.is_under_replicated and each.leader is not None]
    if under:
        lines.append(notice(join(["Fewer replicas in sync than there should be: ", _named(under)]), "warn"))
    moving = sum(each.is_moving for each in now.partitions())
    if moving:
        lines.append(
            notice(join([f"{plural(moving, 'partition')} on the way to other brokers. ", link("Balance", "/plan")]))
        )
    return join(lines)


def _named(partitions: list[PartitionNow]) -> Html:
    shown = join((link(str(each.at), path("topics", each.topic)) for each in partitions[:5]), ", ")
    return join([shown, f" and {len(partitions) - 5} more." if len(partitions) > 5 else "."])


def _map(moment: Moment) -> Html:
    racks = moment.now.racks()
    carried = Carried(moment.now)
    has_racks = set(racks) != {None}
    return tag(
        "div",
        *(
            tag(
                "section",
                tag("h2", *(("Rack ", tag("b", rack)) if rack else ("No rack",))) if has_racks else None,
                *(_broker(broker, moment, carried) for broker in brokers),
                class_="rack",
            )
            for rack, brokers in (racks.items() if has_racks else ((None, [each]) for each in moment.now.brokers))
        ),
        class_="map",
    )


class Carried:
    """What each broker has, found in one pass: there may be many of both."""

    def __init__(self, now: ClusterNow) -> None:
        self.replicas: dict[int, list[PartitionNow]] = {broker.broker_id: [] for broker in now.brokers}
        self.leads = Counter(each.leader for each in now.partitions())
        for each in now.partitions():
            for broker_id in each.replicas:
                self.replicas.setdefault(broker_id, []).append(each)
        self.most_led = max((self.leads[broker.broker_id] for broker in now.brokers), default=0)
        self.most_held = max(map(len, self.replicas.values()), default=0)


def _broker(broker: BrokerNow, moment: Moment, carried: Carried) -> Html:
    own = carried.replicas[broker.broker_id]
    is_down = broker.state == "fenced"
    return tag(
        "article",
        tag(
            "header",
            tag("span", f"Broker {broker.broker_id}", class_="name"),
            tag("span", f"{broker.host}:{broker.port}", class_="address"),
            badge(broker.role, "accent" if broker.role == "controller" else "") if broker.role else None,
            badge("down", "bad") if is_down else None,
            badge(broker.state, "warn") if not is_down and broker.state != IN_SERVICE else None,
        ),
        tag("dl", *_loads(broker, moment, carried), class_="loads"),
        tag(
            "div",
            *_cells(broker.broker_id, own, CELLS_MAX // len(moment.now.brokers)),
            class_="cells",
            aria_hidden="true",
        ),
        class_="broker down" if is_down else "broker",
        data_key=f"broker-{broker.broker_id}",
        aria_label=f"Broker {broker.broker_id}",
    )


def _loads(broker: BrokerNow, moment: Moment, carried: Carried) -> Iterable[Html]:
    now, rates = moment.now, moment.rates
    leads, replicas = carried.leads[broker.broker_id], len(carried.replicas[broker.broker_id])
    yield _load("Leads", leads, carried.most_led, count(leads))
    yield _load("Replicas", replicas, carried.most_held, count(replicas))
    written = rates.by_broker.get(broker.broker_id)
    yield _load("Writes", written or 0, max(rates.by_broker.values(), default=0), rate(written))
    held = broker.held_bytes
    yield _load("Holds", held or 0, max((each.held_bytes or 0 for each in now.brokers), default=0), size(held))
    if held is not None and broker.usable_bytes and broker.usable_bytes < FREE_SHARE * (held + broker.usable_bytes):
        yield _load("Disk left", broker.usable_bytes, held + broker.usable_bytes, size(broker.usable_bytes))
    if broker.metadata_lag:
        yield _load("Metadata", 0, 0, f"{plural(broker.metadata_lag, 'record')} behind")


def _load(name: str, value: float, most: float, text: Child) -> Html:
    share = 0 if most <= 0 else 100 * value / most
    bar = tag("dd", tag("span", tag("i", style=f"width:{share:.0f}%"), class_="bar"), aria_hidden="true")
    return join([tag("dt", name), bar, tag("dd", text)])


def _cells(broker_id: int, own: list[PartitionNow], cells_max: int) -> Iterable[Html]:
    for each in own[:cells_max]:
        kinds = ["cell"]
        if each.leader == broker_id:
            kinds.append("leader")
        elif broker_id not in each.in_sync:
            kinds.append("out")
        if each.is_moving:
            kinds.append("moving")
        yield tag("span", class_=" ".join(kinds), title=str(each.at))
    if len(own) > cells_max:
        yield tag("span", f"and {count(len(own) - cells_max)} more", class_="dim")


def _key() -> Html:
    return tag(
        "p",
        tag("span", tag("i", class_="cell leader"), "leads a partition"),
        tag("span", tag("i", class_="cell"), "follows"),
        tag("span", tag("i", class_="cell out"), "not in sync"),
        class_="key-line",
    )
