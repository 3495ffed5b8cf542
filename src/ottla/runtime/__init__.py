"""Where a node meets the outside world: the event loop, sockets, files and threads.

This is the only package that opens a file or a socket or creates a task. It holds no rules of Kafka's: those live in
the cores below, which it drives. `node` builds and wires everything in one place.
"""
