"""Consumer groups: who is a member, who reads what, and how far everybody has read.

What lives here is the group coordinator as a pure core: no I/O, time as an argument, records and answers as values.

    shard.py        the groups of one `__consumer_offsets` partition: the only door for handlers and the runtime
    classic.py      the life of one group: joins, syncs, heartbeats, leaves, time-outs; states.py is its state table
    roster.py       who is in a group: members, static members, the vote for a protocol, the leader
    offsets.py      committed offsets: commit, fetch, delete, expire
    retention.py    which offsets have outlived their use
    records.py      what is written to the log; log_format.py has its bytes, which are Kafka's own
    timers.py       one heap of deadlines for all sessions and rebalances of a shard
    assignment.py   range, round-robin and sticky assignors, for members that have none of their own

Two guarantees are kept here. At any moment at most one set of members holds a group's current generation, and
everybody else is turned away with the error that makes a Kafka client rejoin. And what was acknowledged (an
assignment, a committed offset) is in a record, so that it is the same after a restart.

Which partitions a member gets is not decided here: in the classic protocol a client, the group's leader, does that.
"""
