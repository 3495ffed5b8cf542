"""A durable queue in a directory: no server to start, nothing to configure.

Several of these may run at once on the same directory: the first one serves it, the others join, and when the first one
ends, another takes over. `--target kafka://localhost:9092` uses a cluster instead, with no other change.

    python examples/embedded_queue.py
    python examples/embedded_queue.py --target kafka://localhost:9092
"""

import argparse
import time

import ottla


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="./queue")
    parser.add_argument("--count", type=int, default=20_000)
    args = parser.parse_args()

    with ottla.open(args.target, partitions=4) as queue:
        print(f"{queue.mode.value} mode, {queue.partitions} partitions, at {queue.bootstrap_servers}")

        first = queue.enqueue("sensor-1", {"temperature": 21.5})  # on disk when it returns
        print(f"the first message is in partition {first.partition} at offset {first.offset}")

        before = time.perf_counter()
        queue.enqueue_many((f"sensor-{number % 100}", f"reading {number}") for number in range(args.count))
        print(f"{args.count / (time.perf_counter() - before):,.0f} messages per second")

        with queue.consumer("dashboard", auto_ack=False) as consumer:
            received = 0
            while received < args.count + 1:
                for message in consumer.poll(5_000):
                    received += 1
                    consumer.ack(message)  # any order will do; what is not acknowledged comes again after a crash
            print(f"{received} messages read; the last is {message.text()!r} of {message.client_id}")


if __name__ == "__main__":
    main()
