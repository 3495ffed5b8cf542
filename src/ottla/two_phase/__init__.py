"""A database transaction and an Ottla transaction as one: both are committed, or neither is, whatever crashes when.

    database = sqlite3.connect("shop.db")
    with TwoPhaseProducer(database, transactional_id="shop-1") as producer:
        with producer.transaction():
            database.execute("INSERT INTO orders VALUES (?)", (7,))
            producer.send("orders", b"7")

The database decides. Ottla's transaction is prepared first (all its records are on the brokers' disks, undecided, and
no time-out ends it); then its producer id and epoch are written into a table of the database, in the very transaction
that holds the program's own changes. Committing that is the decision; the end of Ottla's transaction follows from it,
now or after a restart: the transaction that is still open then is committed if the table names it, else aborted.

| crash                                   | the table            | what the next start does |
|-----------------------------------------|----------------------|--------------------------|
| while records are sent, or prepared     | names an earlier one | aborts                   |
| after the database's commit             | names it             | commits                  |
| after the end of Ottla's transaction    | names it             | nothing is open          |
| while the next start settles it         | as it was            | the same again           |

Another program with the same id fences the first in both places: in Ottla by the epoch, in the database by the owner of
the row, which every transaction checks as it writes it.

    brokers       requests and answers over plain sockets: stock clients have no prepared transactions (KIP-939)
    writer        a transactional producer with them
    databases     the table, in SQLite and PostgreSQL
    producer      TwoPhaseProducer: the order of the steps

The brokers need `transaction.two.phase.commit.enable`, and transactions version 2.
"""

from ottla.two_phase.producer import TwoPhaseProducer

__all__ = ["TwoPhaseProducer"]
