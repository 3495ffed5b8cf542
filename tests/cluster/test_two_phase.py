"""Commits in two phases while the leaders and coordinators that they need are killed."""

import itertools
import sqlite3
from collections import Counter
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.two_phase import TwoPhaseProducer
from tests.cluster.processes import ClusterProcesses
from tests.interop.test_confluent_transactions import read_all

TRANSACTIONS = 40
KILL_EVERY = 8


def test_database_and_topic_agree_while_brokers_are_killed(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "shop.db")
    database.execute("CREATE TABLE orders (name TEXT)")
    enabled = ("--set", "transactions.transaction_two_phase_commit_enable=true")
    with ClusterProcesses(tmp_path, 3, *enabled) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = NewTopic("orders", 3, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic], operation_timeout=30)["orders"].result(30)
        victims = itertools.cycle(cluster.nodes)
        victim = None
        with TwoPhaseProducer(
            database, transactional_id="shop", bootstrap_servers=cluster.bootstrap, patience_s=60
        ) as producer:
            for number in range(TRANSACTIONS):
                with producer.transaction():
                    database.execute("INSERT INTO orders VALUES (?)", (str(number),))
                    for partition in range(3):
                        producer.send("orders", str(number), partition=partition)
                    if number % KILL_EVERY == KILL_EVERY // 2:
                        producer._writer.flush()  # prepared, and one of those who know of it dies
                        victim = cluster.node(next(victims))
                        victim.kill()
                    elif number % KILL_EVERY == 0 and victim is not None:
                        victim.start()
        found = Counter(value.decode() for value in read_all(cluster.bootstrap, "orders", 3))
    names = [name for (name,) in database.execute("SELECT name FROM orders")]
    database.close()
    assert found == Counter(dict.fromkeys(map(str, range(TRANSACTIONS)), 3))
    assert len(names) == TRANSACTIONS
