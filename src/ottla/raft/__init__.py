"""Consensus on one log: Raft, without I/O.

A few voters agree on a sequence of entries, and go on agreeing as long as a majority of them is there. Ottla keeps its
metadata in such a log; its leader is the controller. What an entry means is not known here: it is bytes, with an index
and a term. There is no clock, no randomness, no disk and no socket in here either: a node is told what happens (`step`,
`tick`, `propose`) and says what must be done (`ready`). "Paper" is Ongaro and Ousterhout's (2014), "dissertation"
Ongaro's.

    node.py         RaftNode, the only door: terms, votes, and the change of roles
    follower.py     takes what the leader sends; a voter that hears nothing campaigns, an observer asks for the log
    candidate.py    asks whether it would be elected (pre-vote), then asks for votes; elections.py gives them
    leader.py       proposals, commits, changes of the voters, check-quorum
    replication.py  what each node is sent, and what a majority has; progress.py is one node's, quorum.py the maths
    reads.py        reads that miss nothing; transfer.py: leadership is handed over
    log.py          the log as a node sees it: stable.py (the port to the disk), unstable.py (on its way there),
                    terms.py (the term of each entry), voters.py (who votes, at each place of the log)
    ready.py        what must be done; entry.py, messages.py: the values; wire.py: their bytes; settings.py: the numbers

Guarantees: one leader per term; a committed entry stays, at its index, on every node for ever; a read that is asked for
sees everything that was committed before. They hold whatever the network does, and over any crash that leaves what a
`Ready` said must be on disk. `tests/raft/test_cluster.py` looks for the contrary.


How to drive a node
===================

    node = RaftNode(node_id=1, stable=log, hard_state=read_hard_state(), random=random, settings=RaftSettings())

    def pump():                                   # once a turn of the event loop, after the calls below
        send(node.early_messages())               # these wait for no disk
        while no Ready is being carried out and (ready := node.ready()) is not None:
            if ready.leadership: fence or start the controller (see there)
            write(ready.hard_state)               # \\
            replace_by(ready.snapshot)            #  > one commit of the journal makes all three durable
            truncate_and_append(ready.entries)    # /
            send(ready.messages)                  # each is for `to`; loss is no problem
            apply(ready.committed)                # to the state machine, in order
            serve(ready.reads)
            node.advance(ready)

    every tick:              node.tick()
    a message arrives:       node.step(decode_message(frame))
    a decision has records:  indexes = node.propose([bytes, ...])

**The order within a Ready is all that safety rests on**: nothing leaves the node, and nothing is applied, before hard
state, snapshot and entries are on disk. If the write fails, stop the node; never go on as if it had worked.

**The disk may be slow.** There is one Ready at a time, but everything else may be called between `ready` and `advance`,
so that the commit can run in a thread. What it brings is in the next Ready, and what gathers meanwhile shares one
commit. Messages that promise nothing (heartbeats, their answers, a leader's entries) are in `early_messages` and leave
at once: otherwise a disk that hangs for an election time-out would cost the leader its office. A runtime that commits
in the loop may leave them out: they are then in the Ready.

**The stable log** (`StableLog`) is read by the node and written by the runtime. Entries from `entries[0].index` on are
cut before `entries` are appended. One entry is one record batch of `__cluster_metadata-0`, with all records of one
decision, since an entry is committed as a whole and a proposal of several entries is not; its leader epoch is the term;
NOOP and VOTERS are control batches. Indexes count batches and offsets count records, so the adapter keeps the base
offset of each entry after the base in an array, filled as the log is read: at start the node reads all of it once, for
terms and voters. `HardState` is a file of its own, replaced atomically, or an entry of the journal.

**The first voters** are in `Snapshot(voters=VoterSet.of([...]))`, which a new log has as its snapshot at index 0. All
founders of a cluster must be given the same set, and it is written before the node is started. A node that joins a
cluster starts with none: it observes. A cluster of one is its own only voter and leads with its first tick.

**The controller.** When `leadership` says that this node leads, the state machine is behind: the controller may decide
from the moment at which an entry of this very term comes out as committed (the node makes the first by itself).
Proposals are committed when entries of the term in which they were proposed come out at their indexes; if `leadership`
changes before, nobody knows: throw the state away, build it again from `committed` and the snapshot, and let callers
ask again. A new controller calls `observe(brokers)`, so that brokers hear of it at once.

**Observers** are nodes that are not in the voter set; there is no record of them. They ask for the log (`Attach`) at
the voters that they know of, and at `set_contacts`, which the runtime fills from gossip and from seeds. They are sent
what is committed. A voter that was removed becomes one by itself; to be made a voter, a node must first observe.

**Voters change one at a time** (`add_voter`, `remove_voter`); the next change is refused until the last is committed.
A frame says who sent it: node id and directory id. Drop it if `node.voters.admits(node_id, directory_id)` is false:
that is a voter which lost its disk, and with it its promises. Voters that were founded by id alone get their directory
ids by `add_voter(Voter(node_id, directory_id))`, one after the other, as soon as they are heard from.

**Snapshots.** When the log has grown enough: `snapshot = node.snapshot_at(applied)`, write the state with it, sync,
drop entries that nobody is likely to need, `node.compacted()`. If the node installed a newer one meanwhile, throw
yours away. A leader that lacks what a follower needs sends `InstallSnapshot`, which only describes its snapshot. The
receiver's runtime fetches the state from the sender (Kafka's FetchSnapshot says how: by end offset and epoch, in
chunks), and only then steps the message; `Ready.snapshot` then tells it to put that state in place. If it can't fetch
it, it drops the message: the leader offers the snapshot again after `snapshot_ticks`, or when the sender's runtime says
`snapshot_failed`.

A crash may come between a snapshot and the log that it replaces: a log that ends before the newest snapshot, or has an
entry of another term where the snapshot ends, is dropped at start.

**Reads.** `read_id = node.read()`; the answer is a `ReadResult` with an index, to be served when the state has reached
it. Time it out: an answer from another node can get lost.

**Transport.** One connection per direction and pair, a frame with a length, the sender's node id and directory id, the
cluster id, then `wire.encode_message`. Kafka's own Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch are not used
between Ottla's nodes: Kafka's Raft is pulled by followers, this one is pushed by the leader, and no client speaks
them. They correspond so: VoteRequest ~ Vote (pre_vote is its v2), the first Append or Heartbeat of a term ~
BeginQuorumEpoch, TimeoutNow ~ EndQuorumEpoch with one preferred successor, Append and AppendReply ~ the answer to a
Fetch and the next Fetch, AppendRejected ~ the diverging epoch, InstallSnapshot ~ a Fetch answered with a snapshot id.
DescribeQuorum is answered from `node.status()`, with ticks made into times.

**A clean stop**: `transfer_leadership()`, go on until `leadership` says that another leads or an election time-out has
passed, then stop. **Ticks** are of the same length on all nodes, roughly; a node that was stopped for long (SIGSTOP)
gets one tick, not all that it missed.
"""
