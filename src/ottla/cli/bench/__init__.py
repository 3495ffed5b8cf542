"""`ottla bench`: how fast a running node is, measured through librdkafka from several processes.

It loads any Kafka-protocol broker the way Python programs do. The clients share the machine with the broker, and a
Python process sends some hundred thousand records a second at most, so what it finds is a floor; `bench/` in the
repository has the measurements against Apache Kafka with clients in C.
"""

from ottla.cli.bench.command import command

__all__ = ["command"]
