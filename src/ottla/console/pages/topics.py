"""Topics: what there is, how much, and how fast it grows."""

from __future__ import annotations

from ottla.console.frame import Page, topic_page
from ottla.console.markup import Child, Column, Html, badge, figure, figures, join, link, panel, path, table, tag
from ottla.console.site import Site
from ottla.console.snapshot import PartitionNow, TopicNow
from ottla.console.source import Config
from ottla.console.text import NONE, count, plural, rate, size
from ottla.console.watching import Moment

COLUMNS = (
    Column("Topic"),
    Column("Partitions", number=True),
    Column("Replicas", number=True, wide=True),
    Column("Records", number=True),
    Column("Written", number=True),
    Column("On disk", number=True, wide=True),
    Column("Health"),
)
PARTITION_COLUMNS = (
    Column("Partition"),
    Column("Replicas"),
    Column("From", number=True, wide=True),
    Column("To", number=True),
    Column("Records", number=True),
    Column("Written", number=True),
    Column("Size", number=True, wide=True),
    Column("Health"),
)
FILTER = tag(
    "input", type="search", placeholder="Filter by name", aria_label="Filter by name", class_="filter", data_filter=True
)


def show_all(site: Site) -> None:
    Page(site, "Topics", "Topics").watch(site.cluster.shared, render_all)


def render_all(moment: Moment) -> Html:
    own = [topic for topic in moment.now.topics if not topic.is_internal]
    internal = [topic for topic in moment.now.topics if topic.is_internal]
    listed = table(
        COLUMNS,
        (_row(topic, moment) for topic in own),
        label="Topics",
        empty="There are no topics yet. `ottla produce` makes one when it first writes to it.",
        keys=[topic.name for topic in own],
    )
    return join(
        [
            panel(plural(len(own), "topic"), listed, side=FILTER),
            panel("Internal", table(COLUMNS, (_row(topic, moment) for topic in internal), label="Internal", empty=""))
            if internal
            else None,
        ]
    )


def _row(topic: TopicNow, moment: Moment) -> list[Child]:
    return [
        link(topic.name, path("topics", topic.name)),
        count(len(topic.partitions)),
        count(topic.replication_factor),
        count(topic.records),
        rate(moment.rates.of_topic(topic)),
        size(topic.size_bytes),
        _health(topic.offline, topic.under_replicated),
    ]


def _health(offline: int, under_replicated: int) -> Html:
    if offline:
        return badge(f"{offline} without leader", "bad")
    return badge(f"{under_replicated} under-replicated", "warn") if under_replicated else badge("in sync", "good")


def show(site: Site, topic: str) -> None:
    topic_page(site, topic, "Partitions").watch(site.cluster.shared, lambda moment: render(moment, topic))


def render(moment: Moment, name: str) -> Html:
    topic = moment.now.topic(name)
    if topic is None:
        return tag("p", f"There is no topic {name}.", class_="empty")
    busiest = max((moment.rates.by_partition.get(each.at, 0.0) for each in topic.partitions), default=0.0)
    rows = (_partition(each, moment, busiest) for each in topic.partitions)
    return join(
        [
            figures(
                figure("Partitions", count(len(topic.partitions)), f"{topic.replication_factor} replicas each"),
                figure("Records", count(topic.records)),
                figure("Written", rate(moment.rates.of_topic(topic))),
                figure("On disk", size(topic.size_bytes), "copies included"),
                figure(
                    "Health",
                    "In sync" if not topic.offline + topic.under_replicated else "Lacking",
                    None if not topic.offline + topic.under_replicated else _lacking(topic),
                    "bad" if topic.offline else "warn" if topic.under_replicated else "",
                ),
            ),
            panel("Partitions", table(PARTITION_COLUMNS, rows, label="Partitions", empty="None.")),
        ]
    )


def _lacking(topic: TopicNow) -> str:
    return f"{topic.offline} without leader, {topic.under_replicated} under-replicated"


def _partition(each: PartitionNow, moment: Moment, busiest: float) -> list[Child]:
    written = moment.rates.by_partition.get(each.at)
    share = 0 if not busiest else 100 * (written or 0) / busiest
    return [
        link(str(each.index), f"{path('topics', each.topic, 'messages')}?partition={each.index}"),
        replicas(each.leader, each.replicas, each.in_sync),
        count(each.start),
        count(each.end),
        count(each.records),
        join([rate(written), tag("span", tag("i", style=f"width:{share:.0f}%"), class_="bar wide")]),
        size(each.size_bytes),
        _partition_health(each),
    ]


def _partition_health(each: PartitionNow) -> Html:
    if each.leader is None:
        return badge("no leader", "bad")
    if each.is_moving:
        return badge("moving", "accent")
    return badge("under-replicated", "warn") if each.is_under_replicated else badge("in sync", "good")


def replicas(leader: int | None, placed: tuple[int, ...], in_sync: tuple[int, ...]) -> Html:
    if not placed:
        return Html(NONE)

    def one(broker_id: int) -> Html:
        kind = "leader" if broker_id == leader else "" if broker_id in in_sync else "out"
        said = "leads" if kind == "leader" else "in sync" if not kind else "not in sync"
        return tag("span", broker_id, class_=f"replica {kind}".strip(), title=f"Broker {broker_id}: {said}")

    return join(map(one, placed))


def show_configs(site: Site, topic: str) -> None:
    page = topic_page(site, topic, "Configs")
    shown = page.live()

    async def load() -> None:
        shown.show(render_configs(await site.source.configs(topic)))

    page.run_while_open(load)


def render_configs(configs: list[Config]) -> Html:
    own = [config for config in configs if config.is_own]
    others = [config for config in configs if not config.is_own]
    return join(
        [
            panel("Set for this topic", _configs(own, "Nothing: the topic has the cluster's defaults.")),
            panel("Defaults of the cluster", _configs(others, "None are told.")),
        ]
    )


def _configs(configs: list[Config], empty: str) -> Html:
    rows = ([tag("code", each.name), tag("code", NONE if each.value is None else each.value)] for each in configs)
    return table((Column("Config"), Column("Value")), rows, label="Configs", empty=empty)
