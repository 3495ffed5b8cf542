"""Bad input, hostile clients, full disks and kill -9 against a real node process.

OTTLA_TEST_BOOTSTRAP points the tests that only send bytes at any broker, to see what Apache Kafka does with the same.
"""
