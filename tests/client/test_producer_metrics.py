import json

from ottla.client.producer_metrics import metrics_from


def window(avg: float, cnt: int, p50: float = 0, p99: float = 0) -> dict[str, float]:
    return {"avg": avg, "cnt": cnt, "p50": p50, "p99": p99}


def test_before_the_first_statistics_there_are_counts() -> None:
    metrics = metrics_from(None, sent=10, failed=1, waiting=2)

    assert (metrics.sent, metrics.failed, metrics.waiting, metrics.delivered) == (10, 1, 2, 7)
    assert metrics.batch_bytes_avg == 0


def test_averages_weigh_topics_by_their_batches() -> None:
    topics = {
        "a": {"batchcnt": window(10, 3), "batchsize": window(1000, 3)},
        "b": {"batchcnt": window(50, 1), "batchsize": window(5000, 1)},
    }

    metrics = metrics_from(json.dumps({"topics": topics, "brokers": {}}), sent=0, failed=0, waiting=0)

    assert metrics.batch_records_avg == 20
    assert metrics.batch_bytes_avg == 2000


def test_latencies_are_in_milliseconds_and_of_the_slowest_broker() -> None:
    brokers = {
        "1": {"int_latency": window(4000, 1), "rtt": window(0, 1, p50=500, p99=2_000)},
        "2": {"int_latency": window(0, 0), "rtt": window(0, 1, p50=800, p99=1_000)},
    }

    metrics = metrics_from(json.dumps({"topics": {}, "brokers": brokers}), sent=0, failed=0, waiting=0)

    assert metrics.buffer_ms_avg == 4
    assert metrics.request_ms_p50 == 0.8
    assert metrics.request_ms_p99 == 2
