"""Transactions: what the coordinator of a transactional id decides, without I/O.

    states        the states of a transaction, and which may follow which
    transaction   one transactional id: its producer, its transaction, and every change as a new value
    log_format    the same in the bytes of `__transaction_state`, as Kafka writes them
    starting      InitProducerId: who the client is from now on, and what becomes of the transaction that is open
    ending        EndTxn: the client's decision, its repetition, or somebody else's
    markers       the end of a transaction, as it is written into a partition
    waiting       requests that wait until the markers of the last transaction are written
    shard         the ids of one partition of `__transaction_state`: the only door for handlers and the runtime
    reports       what administrators are told of them

A producer's transaction is here only a state and the partitions that it wrote to. Records go to the partitions, which
know that they are undecided; when the transaction ends, that is first written here (prepare), and from then on it can't
be taken back: the runtime writes a marker into each of the partitions, as often and from as many coordinators as it
takes, and then says so (complete).

A producer is fenced by its epoch. Whoever takes over an id gets a higher one, and since the markers carry it as well, a
partition that has seen the marker takes nothing more of the old one. From version 2 on (KIP-890) every transaction ends
by raising the epoch, so that a late record of one transaction can't get into the next.
"""
