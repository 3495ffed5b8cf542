"""Commit exactly what has been processed, and nothing else.

The program "processes" messages in small groups and commits after each. It fails once in the middle of a group; the
second run starts at the first message that was not committed, so that every message is processed at least once.
"""

import argparse

from ottla import Consumer, ConsumerConfig, OffsetResetPolicy, Producer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--topic", default="payments")
    args = parser.parse_args()

    with Producer(bootstrap_servers=args.servers) as producer:
        for number in range(10):
            producer.send(args.topic, f"payment {number}", partition=0)

    try:
        process(args.servers, args.topic, fail_at="payment 5")
    except RuntimeError as error:
        print(f"failed: {error}")
    process(args.servers, args.topic)


def process(servers: str, topic: str, fail_at: str | None = None) -> None:
    config = ConsumerConfig(
        bootstrap_servers=servers,
        group_id=f"{topic}-processors",
        auto_offset_reset=OffsetResetPolicy.EARLIEST,
        enable_auto_commit=False,
        value_deserializer=bytes.decode,
    )
    with Consumer(config) as consumer:
        consumer.subscribe(topic)
        while messages := consumer.poll(timeout_ms=5_000, max_records=3):
            for message in messages:
                if message.value == fail_at:
                    raise RuntimeError(f"could not process {message.value}")
                print(f"processed {message.value} (offset {message.offset})")
            last = messages[-1]
            # An offset that is committed is the next one to read. Plain `consumer.commit()` would do the same here.
            consumer.commit({(last.topic, last.partition): last.offset + 1})


if __name__ == "__main__":
    main()
