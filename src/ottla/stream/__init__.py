"""Read, process, write: every record of a topic has its effect on another topic exactly once.

    from ottla.stream import process

    process("orders", "invoices", make_invoice, group="billing")

`process` reads records, calls a function with each, and writes what that returns together with the group's offsets in
one transaction. So whatever ends between two instructions, this program, its machine or a broker: readers of committed
records see the output of each record once. What the function itself does elsewhere, it may do more than once.

    output        what a function returns, as records
    dead_letter   a record that can't be processed, and what is known about it, in headers
    retries       how long to wait before the next attempt
    session       one producer and one consumer: batches, transactions, rebalances
    processor     sessions until somebody stops it; signals

The transaction is opened when the outputs of a batch are there, and ended at once: neither a slow function nor a retry
keeps readers of the output waiting. Memory is bounded by `batch_records`, `batch_bytes` and the fetch buffer.
"""

from ottla.stream.output import Output, Reject
from ottla.stream.processor import Processed, process

__all__ = ["Output", "Processed", "Reject", "process"]
