"""What happens when one side is slower than the other.

Sending: the buffer is bounded. When it is full, `send` waits until there is room, and after `max_block_ms` it raises
BufferFullError: the message was not taken, and the program decides. Nothing is ever dropped.

Reading: a consumer that can't keep up pauses its partitions. It stays in its group and goes on where it stopped.
"""

import argparse
import time
from collections import deque

from ottla import Consumer, ConsumerConfig, Message, OffsetResetPolicy, Producer, ProducerConfig
from ottla.client.errors import BufferFullError

BACKLOG_MAX = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--topic", default="pressure")
    parser.add_argument("--count", type=int, default=5_000)
    args = parser.parse_args()

    send(args.servers, args.topic, args.count)
    read_slowly(args.servers, args.topic, args.count)


def send(servers: str, topic: str, count: int) -> None:
    config = ProducerConfig(bootstrap_servers=servers, buffer_records=500, max_block_ms=1_000)
    with Producer(config) as producer:
        for number in range(count):
            while True:
                try:
                    producer.send(topic, f"message {number}")
                    break
                except BufferFullError:
                    print("the cluster does not keep up; trying again")
    print(f"sent {count} messages with at most {config.buffer_records} waiting")


def read_slowly(servers: str, topic: str, count: int) -> None:
    config = ConsumerConfig(
        bootstrap_servers=servers, group_id=f"slow-{time.time_ns()}", auto_offset_reset=OffsetResetPolicy.EARLIEST
    )
    backlog: deque[Message] = deque()
    processed = pauses = 0
    paused = False
    with Consumer(config) as consumer:
        consumer.subscribe(topic)
        while processed < count:
            if paused and len(backlog) <= BACKLOG_MAX // 4:
                consumer.resume()
                paused = False
            backlog.extend(consumer.poll(timeout_ms=0 if backlog else 1_000))
            if not paused and len(backlog) > BACKLOG_MAX:
                consumer.pause()
                paused, pauses = True, pauses + 1
            for _ in range(min(50, len(backlog))):  # as much work as there is time for in one round
                backlog.popleft()
                processed += 1
    print(f"read {processed} messages and paused {pauses} times")


if __name__ == "__main__":
    main()
