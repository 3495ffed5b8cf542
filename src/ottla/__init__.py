"""Ottla: a message queue that speaks the Kafka protocol, durable by default."""
