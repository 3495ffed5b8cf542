"""Writes the dashboards: `python deploy/grafana/generate.py`.

Grafana's JSON is fifty lines a panel, of which two say something: what is asked, and how it is named. Those are here;
a test compares what comes out with the files beside it. The tests put every query to a real Prometheus.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "ottla-prometheus"}
COLUMNS = 24
STAT_WIDTH, STAT_HEIGHT = 4, 4
GRAPH_WIDTH, GRAPH_HEIGHT = 12, 8
QUANTILES = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    queries: tuple[tuple[str, str], ...]
    """PromQL, and what its lines are called."""
    unit: str = "short"
    is_stat: bool = False
    about: str = ""
    red_from: float | None = None
    """A figure from here on is bad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    uid: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[tuple[str, str], ...] = ()
    """A name, and the metric whose label of that name gives its values."""


def stat(title: str, query: str, unit: str = "short", red_from: float | None = None, about: str = "") -> Panel:
    return Panel(title=title, queries=((query, ""),), unit=unit, is_stat=True, red_from=red_from, about=about)


def graph(title: str, *queries: tuple[str, str], unit: str = "short", about: str = "") -> Panel:
    return Panel(title=title, queries=queries, unit=unit, about=about)


def latency(title: str, metric: str, about: str = "") -> Panel:
    """Over all nodes."""
    buckets = f"sum by (le) (rate({metric}_bucket[$__rate_interval]))"
    queries = tuple((f"histogram_quantile({share}, {buckets})", name) for share, name in QUANTILES)
    return Panel(title=title, queries=queries, unit="s", about=about)


def per_node(metric: str) -> tuple[str, str]:
    return f"sum by (instance) (rate({metric}[$__rate_interval]))", "{{instance}}"


WRITTEN_BY_TOPIC = (
    "sum by (topic) (max by (topic, partition)"
    ' (rate(ottla_partition_high_watermark{topic=~"$topic"}[$__rate_interval])))'
)
BYTES_BY_TOPIC = (
    "sum by (topic) (max by (topic, partition)"
    ' (rate(ottla_partition_written_bytes_total{topic=~"$topic"}[$__rate_interval])))'
)
READ_BY_TOPIC = 'sum by (topic) (rate(ottla_partition_read_bytes_total{topic=~"$topic"}[$__rate_interval]))'
ALL_WRITTEN = "sum(max by (topic, partition) (rate(ottla_partition_high_watermark[$__rate_interval])))"

OVERVIEW = Dashboard(
    uid="ottla-overview",
    title="Cluster Overview",
    variables=(("topic", "ottla_partition_high_watermark"),),
    panels=(
        stat("Nodes that answer", 'sum(up{job="ottla"})'),
        stat("Brokers fenced", "max(ottla_brokers_fenced)", red_from=1),
        stat(
            "Controller", "max(ottla_raft_leader_id)", about="The node id of the active controller; -1: none is known."
        ),
        stat("Partitions offline", "max(ottla_partitions_offline)", red_from=1),
        stat("Partitions under-replicated", "sum(ottla_partitions_under_replicated)", red_from=1),
        stat("Partitions under min ISR", "sum(ottla_partitions_under_min_isr)", red_from=1),
        stat("Topics", "max(ottla_topics)"),
        stat("Partitions", "sum(ottla_partitions_led)"),
        stat("Messages in per second", ALL_WRITTEN),
        stat("Connections", "sum(ottla_connections)"),
        stat("Groups", "sum(ottla_groups)"),
        stat("Disk used, the fullest", "max(1 - ottla_disk_usable_bytes / ottla_disk_total_bytes)", "percentunit", 0.9),
        graph("Messages in by topic", (WRITTEN_BY_TOPIC, "{{topic}}"), unit="cps"),
        graph("Bytes in by topic", (BYTES_BY_TOPIC, "{{topic}}"), unit="Bps"),
        graph("Bytes out to consumers by topic", (READ_BY_TOPIC, "{{topic}}"), unit="Bps"),
        graph(
            "Network by node",
            (f"{per_node('ottla_received_bytes_total')[0]}", "{{instance}} in"),
            (f"-{per_node('ottla_sent_bytes_total')[0]}", "{{instance}} out"),
            unit="Bps",
        ),
        latency("Produce latency", "ottla_produce_seconds"),
        latency(
            "End-to-end latency",
            "ottla_end_to_end_seconds",
            about="From the producer's clock to consumers that read at the end of a log.",
        ),
        graph("CPU by node", per_node("ottla_process_cpu_seconds_total"), unit="percentunit"),
        graph("Memory by node", ("ottla_process_resident_bytes", "{{instance}}"), unit="bytes"),
        graph("Partitions led by node", ("ottla_partitions_led", "{{instance}}")),
        graph(
            "Raft: term and elections",
            ("max(ottla_raft_term)", "term"),
            ("max(increase(ottla_raft_elections_total[$__rate_interval]))", "elections"),
        ),
        graph("Raft: entries not committed", ("ottla_raft_commit_lag", "{{instance}}")),
        graph(
            "Gossip: nodes by status, and suspicions",
            ("max by (status) (ottla_gossip_members)", "{{status}}"),
            ("sum(increase(ottla_gossip_suspicions_total[$__rate_interval]))", "suspicions"),
        ),
    ),
)

PERFORMANCE = Dashboard(
    uid="ottla-performance",
    title="Performance",
    panels=(
        latency(
            "Produce latency", "ottla_produce_seconds", about="From request to answer: the disks of replicas included."
        ),
        latency(
            "Fetch latency", "ottla_fetch_seconds", about="Includes the wait for records, and fetches of followers."
        ),
        latency("End-to-end latency", "ottla_end_to_end_seconds"),
        latency("Commit latency", "ottla_commit_seconds"),
        graph(
            "Requests per second by API",
            ("sum by (api) (rate(ottla_requests_total[$__rate_interval])) > 0", "{{api}}"),
            unit="reqps",
        ),
        graph(
            "Mean time of a request by API",
            (
                "sum by (api) (rate(ottla_request_seconds_total[$__rate_interval]))"
                " / (sum by (api) (rate(ottla_requests_total[$__rate_interval])) > 0)",
                "{{api}}",
            ),
            unit="s",
        ),
        graph("Requests that wait, by API", ("sum by (api) (ottla_requests_waiting) > 0", "{{api}}")),
        graph(
            "Requests refused as a whole, by API",
            ("sum by (api) (rate(ottla_request_errors_total[$__rate_interval]))", "{{api}}"),
            unit="reqps",
        ),
        graph(
            "Partitions refused, by API and error",
            ("sum by (api, error) (rate(ottla_partition_errors_total[$__rate_interval]))", "{{api}} {{error}}"),
            unit="cps",
        ),
        graph("Connections closed for what they sent", per_node("ottla_protocol_errors_total"), unit="cps"),
        graph(
            "Event loop: how late, p99",
            (
                "histogram_quantile(0.99, sum by (instance, le)"
                " (rate(ottla_event_loop_delay_seconds_bucket[$__rate_interval])))",
                "{{instance}}",
            ),
            ("ottla_event_loop_delay_max_seconds", "{{instance}} max"),
            unit="s",
        ),
        graph("CPU by node", per_node("ottla_process_cpu_seconds_total"), unit="percentunit"),
        graph("Memory by node", ("ottla_process_resident_bytes", "{{instance}}"), unit="bytes"),
        graph("Answers that slow clients have not taken", ("ottla_unsent_bytes", "{{instance}}"), unit="bytes"),
        graph("Connections by node", ("ottla_connections", "{{instance}}")),
        graph("Transactional ids by state", ("sum by (state) (ottla_transactions)", "{{state}}")),
        graph("The oldest open transaction", ("max(ottla_transaction_oldest_seconds)", "age"), unit="s"),
        graph(
            "Records held back by open transactions",
            (
                "sum by (topic) (max by (topic, partition) (ottla_partition_high_watermark)"
                " - max by (topic, partition) (ottla_partition_stable_offset))",
                "{{topic}}",
            ),
        ),
        graph(
            "HTTP requests by status",
            ("sum by (status) (rate(ottla_http_requests_total[$__rate_interval]))", "{{status}}"),
            ("sum(ottla_http_requests_under_way)", "under way"),
            unit="reqps",
        ),
        graph(
            "HTTP messages",
            ("sum(rate(ottla_http_messages_in_total[$__rate_interval]))", "in"),
            ("sum(rate(ottla_http_messages_out_total[$__rate_interval]))", "out"),
            unit="cps",
        ),
        graph(
            "HTTP live tails and group members",
            ("sum(ottla_http_streams)", "tails"),
            ("sum(ottla_http_group_members)", "members"),
        ),
    ),
)

STORAGE = Dashboard(
    uid="ottla-storage",
    title="Storage",
    variables=(("topic", "ottla_partition_bytes"),),
    panels=(
        stat("Logs", "sum(ottla_log_bytes)", "bytes"),
        stat("Segments", "sum(ottla_log_segments)"),
        stat("Journals", "sum(ottla_journal_bytes)", "bytes"),
        stat("Room, the least", "min(ottla_disk_usable_bytes)", "bytes"),
        stat("Disks that failed", "sum(ottla_disk_failed)", red_from=1),
        stat("Commits that failed", "sum(increase(ottla_commit_failures_total[$__range]))", red_from=1),
        latency("fsync latency", "ottla_fsync_seconds", about="The syncs that commits wait for."),
        latency("Commit latency", "ottla_commit_seconds", about="Writing and fsync."),
        graph(
            "fsync p99 by node",
            (
                "histogram_quantile(0.99, sum by (instance, le) (rate(ottla_fsync_seconds_bucket[$__rate_interval])))",
                "{{instance}}",
            ),
            unit="s",
        ),
        graph("Commits per second", per_node("ottla_commit_seconds_count"), unit="ops"),
        graph("Written to logs", per_node("ottla_partition_written_bytes_total"), unit="Bps"),
        graph("Log size by node", ("ottla_log_bytes", "{{instance}}"), unit="bytes"),
        graph(
            "Log size by topic, all replicas",
            ('sum by (topic) (ottla_partition_bytes{topic=~"$topic"})', "{{topic}}"),
            unit="bytes",
        ),
        graph("Segments by node", ("ottla_log_segments", "{{instance}}")),
        graph("Journal size", ("ottla_journal_bytes", "{{instance}}"), unit="bytes"),
        graph("Journal age", ("ottla_journal_age_seconds", "{{instance}}"), unit="s"),
        graph("Commits only in the journal", ("ottla_journal_blocks", "{{instance}}")),
        graph("Held in memory behind the journal", ("ottla_held_bytes", "{{instance}}"), unit="bytes"),
        graph("Room on the disk", ("ottla_disk_usable_bytes", "{{instance}}"), unit="bytes"),
        graph(
            "Records kept, by topic",
            (
                'sum by (topic) (max by (topic, partition) (ottla_partition_end_offset{topic=~"$topic"})'
                ' - max by (topic, partition) (ottla_partition_start_offset{topic=~"$topic"}))',
                "{{topic}}",
            ),
        ),
    ),
)

REPLICATION = Dashboard(
    uid="ottla-replication",
    title="Replication",
    variables=(("topic", "ottla_replica_lag_records"),),
    panels=(
        stat("Partitions offline", "max(ottla_partitions_offline)", red_from=1),
        stat("Under-replicated", "sum(ottla_partitions_under_replicated)", red_from=1),
        stat("Under min ISR", "sum(ottla_partitions_under_min_isr)", red_from=1),
        stat("Lag, the most", "max(ottla_replica_lag_records)"),
        stat("Lag, the longest", "max(ottla_replica_lag_seconds)", "s", 10),
        stat("Brokers fenced", "max(ottla_brokers_fenced)", red_from=1),
        graph(
            "Lag in records by follower",
            ('sum by (replica) (ottla_replica_lag_records{topic=~"$topic"})', "node {{replica}}"),
        ),
        graph(
            "Lag in seconds by follower",
            ('max by (replica) (ottla_replica_lag_seconds{topic=~"$topic"})', "node {{replica}}"),
            unit="s",
        ),
        graph(
            "Lag in records by topic",
            ('sum by (topic) (ottla_replica_lag_records{topic=~"$topic"})', "{{topic}}"),
        ),
        graph(
            "ISR changes",
            ("sum by (change) (increase(ottla_isr_changes_total[$__rate_interval]))", "{{change}}"),
        ),
        graph(
            "Leader changes", ("max(increase(ottla_leader_changes_total[$__rate_interval]))", "leaders that changed")
        ),
        graph(
            "Under-replicated and under min ISR",
            ("sum by (instance) (ottla_partitions_under_replicated)", "{{instance}} under-replicated"),
            ("sum by (instance) (ottla_partitions_under_min_isr)", "{{instance}} under min ISR"),
        ),
        graph(
            "Partitions by node",
            ("ottla_partitions_led", "{{instance}} led"),
            ("ottla_partitions_held", "{{instance}} held"),
        ),
        graph("Quorum: voters", ("ottla_raft_voters", "{{instance}}")),
        graph("Quorum: end of the metadata log", ("ottla_raft_log_end", "{{instance}}")),
        graph("Quorum: entries not committed", ("ottla_raft_commit_lag", "{{instance}}")),
    ),
)

GROUPS = Dashboard(
    uid="ottla-groups",
    title="Consumer Groups",
    variables=(("group", "ottla_group_members"),),
    panels=(
        stat("Groups", "sum(ottla_groups)"),
        stat("Members", "sum(ottla_group_members)"),
        stat("Lag in records", "sum(ottla_group_lag_records)"),
        stat("Lag, the longest", "max(ottla_group_lag_seconds)", "s", 300),
        stat("Rebalances", "sum(increase(ottla_group_generation[$__range]))"),
        graph("Lag in records by group", ('sum by (group) (ottla_group_lag_records{group=~"$group"})', "{{group}}")),
        graph(
            "Lag in seconds by group",
            ('max by (group) (ottla_group_lag_seconds{group=~"$group"})', "{{group}}"),
            unit="s",
        ),
        graph(
            "The partitions that lag most",
            ('topk(10, ottla_group_lag_records{group=~"$group"})', "{{group}} {{topic}}-{{partition}}"),
            about="One partition that stands out: a key that everybody uses, or a member that is slow.",
        ),
        graph(
            "Lag from offsets alone, by group",
            (
                "sum by (group) (clamp_min(max by (topic, partition) (ottla_partition_high_watermark)"
                ' - on (topic, partition) group_right () ottla_group_committed_offset{group=~"$group"}, 0))',
                "{{group}}",
            ),
            about="Also of partitions that the group's coordinator has no replica of.",
        ),
        graph(
            "Members by group", ('sum by (group, state) (ottla_group_members{group=~"$group"})', "{{group}} {{state}}")
        ),
        graph(
            "Rebalances by group",
            ('sum by (group) (increase(ottla_group_generation{group=~"$group"}[$__rate_interval]))', "{{group}}"),
        ),
        graph(
            "Committed per second",
            (
                'sum by (group) (clamp_min(deriv(ottla_group_committed_offset{group=~"$group"}[$__rate_interval]), 0))',
                "{{group}}",
            ),
            unit="cps",
        ),
    ),
)

DASHBOARDS = (OVERVIEW, PERFORMANCE, STORAGE, REPLICATION, GROUPS)


def document(dashboard: Dashboard) -> Json:
    """As Grafana reads it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["ottla"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards", "title": "Ottla", "tags": ["ottla"], "asDropdown": False, "keepTime": True,
                "includeVars": False,
            }
        ],
        "templating": {"list": [variable(name, metric) for name, metric in dashboard.variables]},
        "panels": [
            drawn(number, panel, place)
            for number, (panel, place) in enumerate(zip(dashboard.panels, places(dashboard.panels), strict=True), 1)
        ],
    }  # fmt: skip


def variable(name: str, metric: str) -> Json:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": {"qryType": 1, "query": f"label_values({metric}, {name})", "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }


def places(panels: tuple[Panel, ...]) -> Iterator[Json]:
    """From left to right, row by row."""
    x = y = 0
    height = 0
    for panel in panels:
        width = STAT_WIDTH if panel.is_stat else GRAPH_WIDTH
        tall = STAT_HEIGHT if panel.is_stat else GRAPH_HEIGHT
        if x + width > COLUMNS or (height and tall != height):
            x, y = 0, y + height
        height = tall
        yield {"x": x, "y": y, "w": width, "h": tall}
        x += width


def drawn(number: int, panel: Panel, place: Json) -> Json:
    return {
        "id": number,
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        **({"description": panel.about} if panel.about else {}),
        "datasource": SOURCE,
        "gridPos": place,
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": legend or "__auto"}
            for at, (query, legend) in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": {"unit": panel.unit, **look(panel)}, "overrides": []},
        "options": options(panel),
    }


def look(panel: Panel) -> Json:
    if not panel.is_stat:
        return {"custom": {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}}
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    return {"thresholds": {"mode": "absolute", "steps": steps}}


def options(panel: Panel) -> Json:
    if panel.is_stat:
        return {
            "colorMode": "value",
            "graphMode": "area",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        }
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


def text_of(dashboard: Dashboard) -> str:
    return json.dumps(document(dashboard), indent=2) + "\n"


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for dashboard in DASHBOARDS:
        (DIRECTORY / f"{dashboard.uid}.json").write_text(text_of(dashboard))


if __name__ == "__main__":
    main()
