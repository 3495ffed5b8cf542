"""Send a few messages and print where they went.

ottla start &
python examples/simple_producer.py
"""

import argparse

from ottla import AckMode, Producer, ProducerConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--count", type=int, default=10)
    args = parser.parse_args()

    config = ProducerConfig(bootstrap_servers=args.servers, acks=AckMode.ALL, compression_type="gzip")
    with Producer(config) as producer:
        for number in range(args.count):
            future = producer.send(
                topic=args.topic,
                key=f"user-{number % 3}",  # messages with the same key stay in order
                value={"number": number, "text": "hello"},
                headers={"source": "simple_producer"},
            )
            written = future.result(timeout=10)
            print(f"message {number} is at {written.topic}-{written.partition}, offset {written.offset}")


if __name__ == "__main__":
    main()
