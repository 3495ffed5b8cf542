"""What Ottla promises to be ahead in, in many short windows.

Durable Ottla beside Kafka as it comes, which leaves the disk to the system: 50 and more producers that send one record
at a time, and batches of 16 KiB by librdkafka and by Java's client. Three long windows of each tell of the machine's
pace as much as of the brokers, and rows that are close change sides from run to run. So here the two take turns in
windows of a second and a half, and what counts is the ratio within each repetition: the middle of all, in brackets the
quarters of them.
"""

from bench import java_client

DRIVERS = ("produce_50conn", "produce_100conn", "produce_200conn", "batches_100b", "batches_1kb")
NAMES = (*DRIVERS, *java_client.NAMES)
SYSTEMS = ("ottla", "kafka")
