"""Rows as messages of a Kafka topic."""
