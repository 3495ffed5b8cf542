"""Send and read as fast as one Python process can.

What makes it quick: large batches with a short linger, bytes in place of objects, compression, and not waiting for each
message: the futures are looked at only if one has failed, which `flush` tells.

    python examples/high_throughput.py --count 1000000
"""

import argparse
import time

from ottla import Consumer, ConsumerConfig, OffsetResetPolicy, Producer, ProducerConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--topic", default="fast")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=100)
    args = parser.parse_args()

    send(args.servers, args.topic, args.count, bytes(args.size))
    read(args.servers, args.topic, args.count)


def send(servers: str, topic: str, count: int, value: bytes) -> None:
    config = ProducerConfig(bootstrap_servers=servers, batch_size=1_000_000, linger_ms=20, compression_type="lz4")
    with Producer(config) as producer:
        before = time.perf_counter()
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()  # raises if a message could not be delivered
        print_rate("sent", count, time.perf_counter() - before)


def read(servers: str, topic: str, count: int) -> None:
    config = ConsumerConfig(
        bootstrap_servers=servers,
        group_id=f"{topic}-readers-{time.time_ns()}",
        auto_offset_reset=OffsetResetPolicy.EARLIEST,
        max_poll_records=10_000,
    )
    with Consumer(config) as consumer:
        consumer.subscribe(topic)
        received = len(consumer.poll(10_000))  # joining the group takes a moment that is not counted
        before = time.perf_counter()
        already = received
        while received < count:
            received += len(consumer.poll(10_000))
        print_rate("read", received - already, time.perf_counter() - before)


def print_rate(what: str, count: int, seconds: float) -> None:
    print(f"{what} {count:,} messages in {seconds:.2f} s: {count / seconds:,.0f} per second")


if __name__ == "__main__":
    main()
