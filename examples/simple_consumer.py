"""Print messages as they come, as one of a group: start it twice and the partitions are split.

python examples/simple_consumer.py                  until Ctrl-C
python examples/simple_consumer.py --count 10       until ten have come
"""

import argparse
import contextlib
import itertools
import json

from ottla import Consumer, ConsumerConfig, OffsetResetPolicy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--group", default="printers")
    parser.add_argument("--count", type=int)
    args = parser.parse_args()

    config = ConsumerConfig(
        bootstrap_servers=args.servers,
        group_id=args.group,
        auto_offset_reset=OffsetResetPolicy.EARLIEST,
        value_deserializer=json.loads,
    )
    # Offsets are committed in the background, and when the block ends. A message counts as done when the loop asks for
    # the next one: whatever happens, none is skipped.
    with Consumer(config) as consumer, contextlib.suppress(KeyboardInterrupt):
        consumer.subscribe([args.topic])
        for message in itertools.islice(consumer, args.count):
            print(f"{message.topic}-{message.partition} at {message['offset']}: {message.value}")


if __name__ == "__main__":
    main()
