"""From one topic to another, exactly once, with a record that can't be processed.

Run it as often as you like, and kill it where you like: every payment has its receipt once. The one that can't be
processed is tried three times, and then waits as a dead letter: `ottla dlq list` shows it.
"""

import argparse
import json
import logging
import sys

from ottla import Consumer, ConsumerConfig, Message, OffsetResetPolicy, Producer, ProducerConfig
from ottla.stream import process


def receipt(payment: Message) -> dict[str, object]:
    data = json.loads(payment.value)
    return {"paid": data["amount"], "vat": round(data["amount"] * 0.2, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--topic", default="payments")
    args = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.WARNING)
    receipts = f"{args.topic}-receipts"

    config = ProducerConfig(bootstrap_servers=args.servers, transactional_id=f"{args.topic}-example")
    with Producer(config) as producer, producer.transaction():  # all of them, or none
        for number in range(10):
            producer.send(args.topic, {"amount": number} if number != 5 else "five", key=str(number))

    done = process(
        args.topic, receipts, receipt, group="receipts", bootstrap_servers=args.servers, attempts=3, idle_ms=2_000
    )
    print(f"{done.records} payments, {done.outputs} receipts, {done.dead_letters} dead letters")

    reading = ConsumerConfig(
        bootstrap_servers=args.servers, group_id=f"{receipts}-readers", auto_offset_reset=OffsetResetPolicy.EARLIEST
    )
    with Consumer(reading) as consumer:
        consumer.subscribe(receipts)
        for message in consumer.messages(timeout_ms=3_000):
            print(message.key.decode(), message.value.decode())


if __name__ == "__main__":
    main()
