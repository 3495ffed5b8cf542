"""The Python API: producers, consumers, administration and queues for programs that use Ottla or any Kafka cluster.

What lives here is a small typed facade over librdkafka (through confluent-kafka): it gives names, types, errors and
safe defaults, and leaves batching, retries, group membership and the wire to librdkafka. `ottla.client.queue` adds the
file-based mode on top. Nothing in here is imported by a broker: `import ottla` is quick and the client is loaded when
one of its names is first used.

Guarantees: a record is either acknowledged through its future or its future fails; nothing is dropped silently, not at
a full buffer and not at shutdown. A consumer commits only what its program has been given and come back from.
"""
