"""Send and read from asyncio: many tasks share one producer, and no task blocks the loop."""

import argparse
import asyncio
import time

from ottla import AsyncConsumer, AsyncProducer, ConsumerConfig, OffsetResetPolicy, ProducerConfig


async def sensor(producer: AsyncProducer, topic: str, name: str, readings: int) -> None:
    for number in range(readings):
        await producer.send(topic, {"sensor": name, "reading": number}, key=name)
        await asyncio.sleep(0)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--topic", default="readings")
    args = parser.parse_args()

    async with AsyncProducer(ProducerConfig(bootstrap_servers=args.servers)) as producer:
        await asyncio.gather(*(sensor(producer, args.topic, f"sensor-{number}", 50) for number in range(20)))
    print("20 tasks sent 1000 messages")

    config = ConsumerConfig(
        bootstrap_servers=args.servers,
        group_id=f"asyncio-{time.time_ns()}",
        auto_offset_reset=OffsetResetPolicy.EARLIEST,
    )
    received = 0
    async with AsyncConsumer(config) as consumer:
        await consumer.subscribe(args.topic)
        async for _ in consumer:
            received += 1
            if received == 1_000:
                break
    print(f"read {received} messages")


if __name__ == "__main__":
    asyncio.run(main())
