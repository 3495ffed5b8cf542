"""Other people's programs against a real node: what Ottla promises to clients, seen from outside.

The expectations were written against Apache Kafka. Set OTTLA_TEST_BOOTSTRAP to the address of any broker to run them
against it: where Kafka and Ottla differ, the test is wrong or Ottla is.
"""
